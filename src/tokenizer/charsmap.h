#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

/// The normalisation that SentencePiece compiles into a model (tokenizer.ggml.precompiled_charsmap): texts and what replaces
/// them. Layout: the size of the table in bytes (u32), a double array of u32 (its nodes: bits 0-7 the byte before the node,
/// bit 8 whether a text ends there, bits 10-30 the offset to its children, in 256s if bit 9 is set; or with bit 31 not
/// compared a value, the offset of the replacement), then replacements that end in a zero byte. All little-endian.
class Charsmap {
 public:
  /// Replaces nothing.
  Charsmap() = default;
  /// Throws Error when sizes contradict each other, or a replacement has over 1,024 bytes or no end.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    std::size_t length = 0;  ///< bytes of the text; 0: nothing is replaced here
    std::string_view replacement{};
  };
  /// The longest text of the table, of up to 256 bytes, at the start of `text`.
  [[nodiscard]] Match match(std::string_view text) const;

 private:
  [[nodiscard]] std::uint32_t node(std::uint32_t index) const { return index < nodes_.size() ? nodes_[index] : 0; }

  std::vector<std::uint32_t> nodes_;
  std::string replacements_;
};

}  // namespace rocmforge
