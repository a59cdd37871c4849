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

/// A metadata value. Integers of any width become 64-bit integers, and floats become double.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;

/// The value types of the format; the values are its ids.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

std::string_view name(GgufType type);

/// All elements have the same type. The elements of a nested array are GgufArray.
struct GgufArray {
  GgufType element_type = GgufType::u8;
  std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string>, std::vector<GgufArray>>
      elements;
  [[nodiscard]] std::size_t size() const;
};

struct GgufTensor {
  std::string name;
  Tensor tensor;                  ///< points into the mapped file; the shape has the outermost dimension first
  std::uint64_t file_offset = 0;  ///< of the first byte, from the start of the tensor's shard
  int shard = 0;
};

/// A GGUF model file, mapped read-only and fully checked: every metadata value is well-formed and every tensor is inside its
/// file, so that later code may read without checks. If the file is the first of a split set, the other parts are opened
/// too.
class GgufFile {
 public:
  /// Throws Error. The message names the path, then the key or tensor, then what is wrong, and the offset.
  explicit GgufFile(const std::filesystem::path& path);

  /// Reads a file that is already in memory (for tests and fuzzing). Split files are refused. `bytes` must outlive the
  /// object.
  static GgufFile from_memory(std::span<const std::byte> bytes, std::string label = "memory");

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }  ///< all shards
  [[nodiscard]] int num_shards() const { return std::max(1, static_cast<int>(shards_.size())); }

  /// Key-value pairs in file order.
  [[nodiscard]] const std::vector<std::pair<std::string, GgufValue>>& metadata() const { return metadata_; }
  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }

  // Typed access. Without a fallback, a call throws Error when the key is missing ("key 'llama.block_count' is missing").
  // Every call throws Error when the value has another type ("is a string, an integer was expected").
  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t fallback) const;
  [[nodiscard]] double number(std::string_view key) const;  ///< a float or an integer
  [[nodiscard]] double number(std::string_view key, double fallback) const;
  [[nodiscard]] bool boolean(std::string_view key, bool fallback) const;
  [[nodiscard]] const std::string& string(std::string_view key) const;
  [[nodiscard]] std::string string(std::string_view key, std::string_view fallback) const;
  /// Null when the key is absent. Throws Error when the value is not an array of strings.
  [[nodiscard]] const std::vector<std::string>* strings(std::string_view key) const;
  /// Integers of any width; an empty optional when the key is absent. A scalar becomes one element.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;

  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const;
  /// Throws Error with the name when the tensor is missing.
  [[nodiscard]] const GgufTensor& tensor(std::string_view name) const;

  /// Tells the system that the tensor's pages of the mapping may leave memory, because it has been repacked.
  void release(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;

  /// The number of parts that `header` of the file at `path_` states. Throws Error when the file is not the first of them.
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
