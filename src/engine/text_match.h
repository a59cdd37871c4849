#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rocmforge {

/// A text that is searched in a stream of bytes. Linear in the stream (Knuth, Morris, Pratt 1977).
class TextMatch {
 public:
  /// `text` may not be empty.
  explicit TextMatch(std::string text);

  /// Takes the stream's next byte. True when the stream now ends with the text.
  bool add(char byte);
  /// The bytes of the text's start that the stream ends with.
  [[nodiscard]] std::size_t matched() const { return matched_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] std::size_t advance(std::size_t matched, char byte) const;

  std::string text_;
  std::vector<std::size_t> borders_;  ///< [i]: length of the longest proper start of text[0, i] that is also its end
  std::size_t matched_ = 0;
};

}  // namespace rocmforge
