#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "weights/gguf_file.h"

namespace rocmforge {

/// A bounded cursor over the header of a GGUF file. Every count is compared with the number of bytes left before memory of
/// that size is allocated. Error messages end with the offset of the wrong part.
class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t left() const { return bytes_.size() - position_; }

  /// Reads the next little-endian value. Throws Error with `what` as its name when the file ends first.
  template <class T>
  T read(std::string_view what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  std::string read_string(std::string_view what);

  /// Reads the id of a value type. Throws Error when it is unknown.
  GgufType read_type(std::string_view what);

  GgufValue read_value(GgufType type);

  /// Throws Error with `message` and the offset.
  [[noreturn]] static void fail_at(std::uint64_t offset, std::string_view message);

 private:
  void need(std::uint64_t count, std::string_view what) const;
  GgufArray read_array(int depth);
  template <class Stored, class Wide>
  std::vector<Wide> read_elements(std::uint64_t count);
  void read_array_elements(GgufArray& array, std::uint64_t count, int depth);
  bool read_bool();

  std::span<const std::byte> bytes_;
  std::uint64_t position_ = 0;
  std::uint64_t array_elements_ = 0;  ///< elements of all arrays read so far
};

}  // namespace rocmforge
