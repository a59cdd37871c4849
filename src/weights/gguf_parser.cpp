#include "weights/gguf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"
#include "weights/gguf_reader.h"
#include "weights/gguf_value.h"

namespace rocmforge {

namespace {

constexpr std::array<char, 4> magic{'G', 'G', 'U', 'F'};
constexpr std::uint64_t longest_key = 65535;
constexpr std::uint64_t longest_tensor_name = 64;
// The fewest bytes of a key-value pair (length, type, a value of one byte) and of a tensor's entry (length, rank, type,
// offset).
constexpr std::uint64_t least_pair_bytes = 8 + 4 + 1;
constexpr std::uint64_t least_entry_bytes = 8 + 4 + 4 + 8;
// The format's specification requires a multiple of 8, which also aligns every element. ggml requires a power of two.
constexpr std::int64_t least_alignment = 8;
constexpr std::int64_t largest_alignment = std::int64_t{1} << 30;
constexpr std::uint64_t default_alignment = 32;

std::uint32_t read_preamble(GgufReader& reader) {
  if (reader.read<std::array<char, 4>>("the magic number") != magic) {
    GgufReader::fail_at(0, "not a GGUF file: the first four bytes are not 'GGUF'");
  }
  const auto version = reader.read<std::uint32_t>("the version");
  if ((version & 0xffffu) == 0) {
    GgufReader::fail_at(4, fmt::format("version 0x{:08x}: the file is big-endian, which is not supported", version));
  }
  if (version == 1) {
    GgufReader::fail_at(4, "version 1 is too old: convert the file again (versions 2 and 3 are supported)");
  }
  if (version != 2 && version != 3) {
    GgufReader::fail_at(4, fmt::format("version {} is unknown (versions 2 and 3 are supported)", version));
  }
  return version;
}

std::uint64_t read_count(GgufReader& reader, std::string_view what, std::uint64_t least_bytes) {
  const std::uint64_t start = reader.position();
  const auto count = reader.read<std::uint64_t>(fmt::format("the number of {}", what));
  if (count > reader.left() / least_bytes) {
    GgufReader::fail_at(start, fmt::format("{} {} cannot fit in the {} bytes left", count, what, reader.left()));
  }
  return count;
}

void read_metadata(GgufReader& reader, std::uint64_t count, GgufHeader& header) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t start = reader.position();
    std::string key = with_context(fmt::format("key {} of {}", i + 1, count), [&] { return reader.read_string("a key"); });
    if (key.empty() || key.size() > longest_key) {
      GgufReader::fail_at(start,
                          fmt::format("key {} of {} has {} bytes, not 1 to {}", i + 1, count, key.size(), longest_key));
    }
    if (!header.keys.emplace(key, header.metadata.size()).second) {
      GgufReader::fail_at(start, fmt::format("key {} occurs twice", quote(key)));
    }
    try {
      GgufValue value = reader.read_value(reader.read_type("value type"));
      header.metadata.emplace_back(std::move(key), std::move(value));
    } catch (Error& error) {
      throw std::move(error).in("key " + quote(key));
    }
  }
}

std::uint64_t alignment_of(const GgufHeader& header) {
  const auto found = header.keys.find("general.alignment");
  if (found == header.keys.end()) {
    return default_alignment;
  }
  return with_context("key 'general.alignment'", [&] {
    const std::int64_t value = to_integer(header.metadata[found->second].second);
    if (value < least_alignment || value > largest_alignment || !std::has_single_bit(static_cast<std::uint64_t>(value))) {
      throw Error(fmt::format("is {}, not a power of two from {} to {}", value, least_alignment, largest_alignment));
    }
    return static_cast<std::uint64_t>(value);
  });
}

/// The entry of a tensor. `offset` counts from the start of the data section, which is known only after the last entry.
struct Entry {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entry_position = 0;  ///< of the offset field, for messages
};

/// Reverses the file's dimensions, which are stored innermost first.
Shape read_shape(GgufReader& reader) {
  const std::uint64_t start = reader.position();
  const auto rank = reader.read<std::uint32_t>("the number of dimensions");
  if (rank > Shape::max_rank) {
    GgufReader::fail_at(start, fmt::format("{} dimensions, at most {} are supported", rank, Shape::max_rank));
  }
  std::array<std::int64_t, Shape::max_rank> dims{};
  std::int64_t elems = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    dims[i] = reader.read<std::int64_t>("a dimension");
    if (dims[i] <= 0) {
      GgufReader::fail_at(reader.position() - 8, fmt::format("dimension {} is {}", i, dims[i]));
    }
    if (__builtin_mul_overflow(elems, dims[i], &elems)) {
      GgufReader::fail_at(start, "the number of elements does not fit in 64 bits");
    }
  }
  std::reverse(dims.begin(), dims.begin() + rank);
  return Shape(std::span(dims).first(rank));
}

DType read_tensor_type(GgufReader& reader) {
  const std::uint64_t start = reader.position();
  const auto id = reader.read<std::uint32_t>("the type");
  if (const auto type = dtype_from_id(id)) {
    return *type;
  }
  const std::string_view removed = removed_dtype_name(id);
  GgufReader::fail_at(start, removed.empty() ? fmt::format("type {} is unknown", id)
                                             : fmt::format("type {} ({}) was removed from the format", id, removed));
}

void read_entry(GgufReader& reader, Entry& entry) {
  const std::uint64_t start = reader.position();
  entry.shape = read_shape(reader);
  entry.type = read_tensor_type(reader);
  const DTypeInfo& type = info(entry.type);
  if (entry.shape.cols() % type.block_elems != 0) {
    GgufReader::fail_at(start, fmt::format("rows of {} elements do not divide into {} blocks of {}", entry.shape.cols(),
                                           type.name, type.block_elems));
  }
  const std::int64_t blocks = entry.shape.elems() / type.block_elems;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, std::int64_t{type.block_bytes}, &bytes)) {
    GgufReader::fail_at(start, "its size in bytes does not fit in 64 bits");
  }
  entry.bytes = static_cast<std::uint64_t>(bytes);
  entry.entry_position = reader.position();
  entry.offset = reader.read<std::uint64_t>("the offset");
}

std::vector<Entry> read_entries(GgufReader& reader, std::uint64_t count) {
  std::vector<Entry> entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t start = reader.position();
    Entry entry;
    entry.name = with_context(fmt::format("tensor {} of {}", i + 1, count), [&] { return reader.read_string("a name"); });
    if (entry.name.empty() || entry.name.size() > longest_tensor_name) {
      GgufReader::fail_at(start, fmt::format("tensor {} of {}: its name has {} bytes, not 1 to {}", i + 1, count,
                                             entry.name.size(), longest_tensor_name));
    }
    try {
      read_entry(reader, entry);
    } catch (Error& error) {
      throw std::move(error).in("tensor " + quote(entry.name));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

void check_names_unique(const std::vector<Entry>& entries) {
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries) {
    sorted.push_back(&entry);
  }
  std::ranges::sort(sorted, {}, [](const Entry* entry) { return std::string_view(entry->name); });
  const auto twice =
      std::ranges::adjacent_find(sorted, {}, [](const Entry* entry) { return std::string_view(entry->name); });
  if (twice != sorted.end()) {
    throw Error("occurs twice").in("tensor " + quote((*twice)->name));
  }
}

void check_inside_file(const Entry& entry, std::uint64_t data_start, std::uint64_t alignment, std::uint64_t file_size) {
  const auto fail = [&](const std::string& message) {
    with_context("tensor " + quote(entry.name), [&] { GgufReader::fail_at(entry.entry_position, message); });
  };
  if (entry.offset % alignment != 0) {
    fail(fmt::format("offset {} is not a multiple of the alignment {}", entry.offset, alignment));
  }
  const std::uint64_t room = file_size - std::min(file_size, data_start);
  if (entry.offset > room || entry.bytes > room - entry.offset) {
    fail(fmt::format("offset {} and {} bytes end past the data section, which has {} bytes", entry.offset, entry.bytes,
                     room));
  }
}

void check_no_overlap(const std::vector<Entry>& entries) {
  std::vector<const Entry*> sorted;
  for (const Entry& entry : entries) {
    sorted.push_back(&entry);
  }
  std::ranges::sort(sorted, {}, [](const Entry* entry) { return std::pair(entry->offset, entry->entry_position); });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const Entry& before = *sorted[i - 1];
    const Entry& entry = *sorted[i];
    if (entry.offset < before.offset + before.bytes) {
      with_context("tensor " + quote(entry.name), [&] {
        GgufReader::fail_at(entry.entry_position,
                            fmt::format("offset {} lies inside tensor {}, which takes {} bytes from offset {}", entry.offset,
                                        quote(before.name), before.bytes, before.offset));
      });
    }
  }
}

}  // namespace

GgufHeader parse_gguf(std::span<const std::byte> bytes, int shard) {
  check(reinterpret_cast<std::uintptr_t>(bytes.data()) % least_alignment == 0, "a GGUF file in memory starts aligned");
  GgufReader reader(bytes);
  GgufHeader header;
  header.version = read_preamble(reader);
  const std::uint64_t num_tensors = read_count(reader, "tensors", least_entry_bytes);
  const std::uint64_t num_pairs = read_count(reader, "key-value pairs", least_pair_bytes);
  read_metadata(reader, num_pairs, header);
  const std::uint64_t alignment = alignment_of(header);

  std::vector<Entry> entries = read_entries(reader, num_tensors);
  check_names_unique(entries);
  const std::uint64_t data_start = (reader.position() + alignment - 1) / alignment * alignment;
  for (const Entry& entry : entries) {
    check_inside_file(entry, data_start, alignment, bytes.size());
  }
  check_no_overlap(entries);

  header.tensors.reserve(entries.size());
  for (Entry& entry : entries) {
    const std::uint64_t file_offset = data_start + entry.offset;
    header.tensors.push_back(
        {std::move(entry.name), Tensor{bytes.data() + file_offset, entry.type, entry.shape}, file_offset, shard});
  }
  return header;
}

}  // namespace rocmforge
