#include "weights/gguf_file.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "weights/gguf_parser.h"
#include "weights/gguf_value.h"

namespace rocmforge {

namespace {

/// Shards are named "<prefix>-00001-of-00003.gguf", counted from 1.
std::string shard_suffix(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

constexpr std::int64_t most_shards = 99999;  // five digits

/// The integer under `key` of a shard's header, 0 when absent.
std::int64_t header_integer(const GgufHeader& header, std::string_view key) {
  const auto found = header.keys.find(key);
  if (found == header.keys.end()) {
    return 0;
  }
  return with_context("key " + quote(key), [&] { return to_integer(header.metadata[found->second].second); });
}

void check_shard_header(const GgufHeader& header, std::int64_t index, std::int64_t count) {
  if (const auto number = header_integer(header, "split.no"); number != index) {
    throw Error(
        fmt::format("key 'split.no': is {}, but this is part {} of {}, which has {}", number, index + 1, count, index));
  }
  if (const auto shard_count = header_integer(header, "split.count"); shard_count != count) {
    throw Error(fmt::format("key 'split.count': is {}, but the first part says {}", shard_count, count));
  }
}

}  // namespace

std::string_view name(GgufType type) {
  static constexpr std::array<std::string_view, 13> names{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                          "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<std::size_t>(type)];
}

std::size_t GgufArray::size() const {
  return std::visit([](const auto& list) { return list.size(); }, elements);
}

GgufFile::GgufFile(const std::filesystem::path& path) : path_(path) {
  shards_.emplace_back(path);
  GgufHeader header = with_context(path.string(), [&] { return parse_gguf(shards_[0].bytes(), 0); });
  const std::int64_t count = with_context(path.string(), [&] { return split_count(header); });
  take(std::move(header), shards_[0].bytes().size());
  if (count > 1) {
    open_other_shards(count);
  }
}

GgufFile GgufFile::from_memory(std::span<const std::byte> bytes, std::string label) {
  GgufFile file;
  file.path_ = std::move(label);
  with_context(file.path_.string(), [&] {
    GgufHeader header = parse_gguf(bytes, 0);
    if (const auto count = header_integer(header, "split.count"); count > 1) {
      throw Error(fmt::format("one part of {}: a split file can only be opened from a folder", count));
    }
    file.take(std::move(header), bytes.size());
  });
  return file;
}

std::int64_t GgufFile::split_count(const GgufHeader& header) const {
  const std::int64_t count = header_integer(header, "split.count");
  const std::int64_t number = header_integer(header, "split.no");
  if (count < 0 || count > most_shards || number < 0 || (number > 0 && number >= count)) {
    throw Error(fmt::format("keys 'split.no' and 'split.count': there can't be a part {} of {}", number + 1, count));
  }
  if (count <= 1) {
    return 1;
  }
  const std::string filename = path_.filename().string();
  const std::string suffix = shard_suffix(number + 1, count);
  if (!filename.ends_with(suffix)) {
    throw Error(fmt::format("this is part {} of {}, so its name must end in '{}'", number + 1, count, suffix));
  }
  if (number != 0) {
    const std::string prefix = filename.substr(0, filename.size() - suffix.size());
    throw Error(fmt::format("this is part {} of {}: open the first part, '{}{}'", number + 1, count, prefix,
                            shard_suffix(1, count)));
  }
  return count;
}

void GgufFile::open_other_shards(std::int64_t count) {
  const std::string first = path_.string();
  const std::string prefix = first.substr(0, first.size() - shard_suffix(1, count).size());
  for (std::int64_t i = 1; i < count; ++i) {
    const std::string shard_path = prefix + shard_suffix(i + 1, count);
    shards_.emplace_back(std::filesystem::path(shard_path));
    with_context(shard_path, [&] {
      const auto bytes = shards_.back().bytes();
      GgufHeader header = parse_gguf(bytes, static_cast<int>(i));
      check_shard_header(header, i, count);
      take(std::move(header), bytes.size());
    });
  }
  const std::int64_t total = integer("split.tensors.count");
  if (total != static_cast<std::int64_t>(tensors_.size())) {
    throw Error(fmt::format("{}: key 'split.tensors.count': is {}, but the {} parts have {} tensors", first, total, count,
                            tensors_.size()));
  }
}

void GgufFile::take(GgufHeader header, std::uint64_t bytes) {
  file_bytes_ += bytes;
  if (version_ == 0) {  // the metadata of the first shard is the model's
    version_ = header.version;
    metadata_ = std::move(header.metadata);
    keys_ = std::move(header.keys);
  }
  for (GgufTensor& tensor : header.tensors) {
    const auto [at, is_new] = tensor_names_.emplace(tensor.name, tensors_.size());
    if (!is_new) {
      throw Error(fmt::format("tensor {}: also in part {}", quote(tensor.name), tensors_[at->second].shard + 1));
    }
    tensors_.push_back(std::move(tensor));
  }
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufValue& GgufFile::at(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) {
    throw Error(fmt::format("{}: key {} is missing", path_.string(), quote(key)));
  }
  return *value;
}

template <class Convert>
decltype(auto) GgufFile::converted(std::string_view key, const GgufValue& value, Convert convert) const {
  try {
    return convert(value);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: key {} {}", path_.string(), quote(key), error.what()));
  }
}

std::int64_t GgufFile::integer(std::string_view key) const { return converted(key, at(key), to_integer); }

std::int64_t GgufFile::integer(std::string_view key, std::int64_t fallback) const {
  const GgufValue* value = find(key);
  return value == nullptr ? fallback : converted(key, *value, to_integer);
}

double GgufFile::number(std::string_view key) const { return converted(key, at(key), to_number); }

double GgufFile::number(std::string_view key, double fallback) const {
  const GgufValue* value = find(key);
  return value == nullptr ? fallback : converted(key, *value, to_number);
}

bool GgufFile::boolean(std::string_view key, bool fallback) const {
  const GgufValue* value = find(key);
  return value == nullptr ? fallback : converted(key, *value, to_boolean);
}

const std::string& GgufFile::string(std::string_view key) const { return converted(key, at(key), to_string); }

std::string GgufFile::string(std::string_view key, std::string_view fallback) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::string(fallback) : converted(key, *value, to_string);
}

const std::vector<std::string>* GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? nullptr : &converted(key, *value, to_strings);
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::nullopt : std::optional(converted(key, *value, to_integers));
}

std::optional<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? std::nullopt : std::optional(converted(key, *value, to_numbers));
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_names_.find(name);
  return found == tensor_names_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
  const GgufTensor* found = find_tensor(name);
  if (found == nullptr) {
    throw Error(fmt::format("{}: tensor {} is missing", path_.string(), quote(name)));
  }
  return *found;
}

void GgufFile::release(const GgufTensor& tensor) const {
  if (!shards_.empty()) {  // a file in memory has no mapping
    shards_[static_cast<std::size_t>(tensor.shard)].release(
        {static_cast<const std::byte*>(tensor.tensor.data), tensor.tensor.bytes()});
  }
}

}  // namespace rocmforge
