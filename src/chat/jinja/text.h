#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::jinja {

/// UTF-8 text that records for each byte whether the template or the caller's data wrote it. Every operation on texts keeps
/// this record, so that the template's own marks in a rendered conversation can be told from the same characters in data.
class Text {
 public:
  /// The bytes up to `end` (exclusive) with one source. Neighbouring runs have different sources.
  struct Run {
    std::size_t end = 0;
    bool from_template = false;
  };

  Text() = default;
  Text(std::string_view bytes, bool from_template) { append(bytes, from_template); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }
  /// `byte` must be inside the text.
  [[nodiscard]] bool from_template(std::size_t byte) const;

  void append(std::string_view bytes, bool from_template);
  void append(const Text& text) { append(text, 0, text.size()); }
  /// Appends the bytes [begin, begin + size) of another text.
  void append(const Text& text, std::size_t begin, std::size_t size);
  [[nodiscard]] Text part(std::size_t begin, std::size_t size) const;

  /// Whether the text is markup, by the filters safe and escape (Jinja's Markup). Texts that are joined to markup are
  /// escaped first. Parts of markup are markup; `append` does not change the mark.
  [[nodiscard]] bool is_markup() const { return is_markup_; }
  void mark(bool is_markup) { is_markup_ = is_markup; }

 private:
  std::string bytes_;
  std::vector<Run> runs_;
  bool is_markup_ = false;
};

/// The number of characters (code points). A byte that is not UTF-8 counts as one.
std::size_t count_characters(std::string_view text);
/// The number of bytes of the character at `byte`.
std::size_t character_bytes(std::string_view text, std::size_t byte);
/// The first byte of character `index`; the size of the text when there are fewer.
std::size_t byte_of_character(std::string_view text, std::size_t index);
char32_t character_at(std::string_view text, std::size_t byte);

/// Whether Python's str.isspace is true.
bool is_space(char32_t character);
/// Whether str.splitlines ends a line at this character, apart from "\r\n".
bool is_line_end(char32_t character);
/// The first byte after leading white space, and the byte after the last character that is not white space.
std::size_t skip_space(std::string_view text, std::size_t byte = 0);
std::size_t end_without_space(std::string_view text);

}  // namespace rocmforge::jinja
