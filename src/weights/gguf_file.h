#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "tensor/tensor.h"

namespace rocmforge {

struct GgufArray;
struct GgufHeader;

/// A metadata value. Integers of every width widen to (u)int64, floats to double.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;

/// Value types of the format, by id.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

std::string_view name(GgufType type);

/// All elements have one type; nested arrays hold GgufArray elements.
struct GgufArray {
  GgufType element_type = GgufType::u8;
  std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string>, std::vector<GgufArray>>
      elements;
  [[nodiscard]] std::size_t size() const;
};

struct GgufTensor {
  std::string name;
  Tensor tensor;                  ///< points into the mapped file; shape outermost first
  std::uint64_t file_offset = 0;  ///< of the first byte, from the start of its file
  int shard = 0;
};

/// A GGUF model file (or the first of a split set, whose other parts it opens too), mapped read-only and fully checked:
/// every metadata value is well-formed and every tensor lies inside its file, so later code may read without checks.
class GgufFile {
 public:
  /// Throws Error: path, then the key or tensor, then the offset and what is wrong.
  explicit GgufFile(const std::filesystem::path& path);

  /// A file already in memory (tests, fuzzing); split files are refused. `bytes` must outlive the object.
  static GgufFile from_memory(std::span<const std::byte> bytes, std::string label = "memory");

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }  ///< all shards
  [[nodiscard]] int num_shards() const { return std::max(1, static_cast<int>(shards_.size())); }

  /// Key-value pairs in file order.
  [[nodiscard]] const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }

  // Typed access. The plain form throws Error ("key 'llama.block_count' is missing" / "is a string, an integer was
  // expected"); the form with a fallback throws only for a wrong type.
  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t fallback) const;
  [[nodiscard]] double number(std::string_view key) const;  ///< a float or an integer
  [[nodiscard]] double number(std::string_view key, double fallback) const;
  [[nodiscard]] bool boolean(std::string_view key, bool fallback) const;
  [[nodiscard]] const std::string& string(std::string_view key) const;
  [[nodiscard]] std::string string(std::string_view key, std::string_view fallback) const;
  /// Null when absent; throws when the value is not an array of that element kind.
  [[nodiscard]] const std::vector<std::string>* strings(std::string_view key) const;
  /// Integers of any width; empty optional when absent. A scalar gives one element.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;

  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const;
  /// Throws Error naming the tensor when it is missing.
  [[nodiscard]] const GgufTensor& tensor(std::string_view name) const;

  /// The mapping's pages of this tensor may leave memory (it has been repacked).
  void release(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;

  /// The number of parts that `header`, the file's own, announces; throws when this is not the first of them.
  [[nodiscard]] std::int64_t split_count(const GgufHeader& header) const;
  void open_other_shards(std::int64_t count);
  /// Adds a shard of `bytes` bytes.
  void take(GgufHeader header, std::uint64_t bytes);

  [[nodiscard]] const GgufValue& at(std::string_view key) const;
  template <class Convert>
  decltype(auto) converted(std::string_view key, const GgufValue& value, Convert convert) const;

  std::filesystem::path path_;
  std::uint32_t version_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::vector<MappedFile> shards_;  ///< none for a file in memory
  std::vector<std::pair<std::string, GgufValue>> metadata_;
  std::map<std::string, std::size_t, std::less<>> keys_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> tensor_names_;
};

}  // namespace rocmforge
