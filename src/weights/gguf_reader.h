#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "weights/gguf_file.h"

namespace rocmforge {

/// A bounded cursor over the header of a GGUF file. Nothing is believed before the bytes are there: every count is compared
/// with the bytes left before anything of that size is allocated. Errors end with the offset of the part that is wrong.
class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t left() const { return bytes_.size() - position_; }

  /// The next little-endian value; `what` names it when the file ends first.
  template <class T>
  T read(std::string_view what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  std::string read_string(std::string_view what);

  /// A value type's id.
  GgufType read_type(std::string_view what);

  GgufValue read_value(GgufType type);

  /// Throws Error: `message` and the offset.
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
  std::uint64_t array_elements_ = 0;  ///< of all arrays so far
};

}  // namespace rocmforge
