#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// Reads the keys of one architecture ("block_count" for "llama.block_count"), and remembers which were read.
/// Every error names the file and the whole key.
class MetadataReader {
 public:
  /// `file` must outlive the reader.
  MetadataReader(const GgufFile& file, std::string_view architecture);

  [[nodiscard]] const GgufFile& file() const { return *file_; }
  [[nodiscard]] const std::string& architecture() const { return architecture_; }
  bool contains(std::string_view key);
  /// Throws Error when it is missing.
  void require(std::string_view key);
  /// Whether this key was read.
  [[nodiscard]] bool asked(std::string_view key) const { return asked_.contains(full(key)); }

  /// A count in [1, 2^31). An array with one value per layer is accepted when all its values agree.
  std::int32_t count(std::string_view key);
  std::int32_t count(std::string_view key, std::int32_t fallback);
  /// One count for each of `layers` layers: from an array of as many, or all of a single value.
  /// `least` is the smallest valid count.
  std::vector<std::int32_t> counts(std::string_view key, std::int32_t layers, std::int32_t least = 1);
  /// The counts of an array of any length, or of a single value.
  std::vector<std::int32_t> list(std::string_view key, std::int32_t least = 1);
  /// A finite number. Arrays are not accepted.
  double number(std::string_view key);
  double number(std::string_view key, double fallback);
  /// One finite number for each of `layers` layers: from an array of as many, or all of a single value.
  std::vector<double> numbers(std::string_view key, std::int32_t layers);
  bool flag(std::string_view key, bool fallback);
  std::string string(std::string_view key, std::string_view fallback);

  /// An Error about a key: "model.gguf: key 'llama.block_count' is 0, ...".
  [[nodiscard]] Error error(std::string_view key, std::string_view what) const;

  /// Keys of this architecture that were not read, quoted, in file order.
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  std::string ask(std::string_view key);
  [[nodiscard]] std::int32_t in_range(std::string_view key, std::int64_t value, std::int32_t least = 1) const;

  const GgufFile* file_;
  std::string architecture_;
  std::string prefix_;
  std::set<std::string> asked_;
};

}  // namespace rocmforge
