#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::jinja {

/// UTF-8 text that knows of each byte whether the template wrote it or the caller's data did. Every operation on texts keeps
/// that, so that a rendered conversation can tell its own marks from what somebody wrote.
class Text {
 public:
  /// Bytes up to `end` (exclusive) from one source; neighbouring runs differ.
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
  /// `byte` must lie inside the text.
  [[nodiscard]] bool from_template(std::size_t byte) const;

  void append(std::string_view bytes, bool from_template);
  void append(const Text& text) { append(text, 0, text.size()); }
  /// Bytes [begin, begin + size) of another text.
  void append(const Text& text, std::size_t begin, std::size_t size);
  [[nodiscard]] Text part(std::size_t begin, std::size_t size) const;

  /// Marked as safe, by the filters safe and escape: what Jinja calls Markup. Texts that are joined to one are escaped
  /// first. Parts of one are marked too; `append` changes no mark.
  [[nodiscard]] bool is_markup() const { return is_markup_; }
  void mark(bool is_markup) { is_markup_ = is_markup; }

 private:
  std::string bytes_;
  std::vector<Run> runs_;
  bool is_markup_ = false;
};

/// Characters (code points); bytes that are not UTF-8 count one each.
std::size_t count_characters(std::string_view text);
/// The bytes of the character at `byte`.
std::size_t character_bytes(std::string_view text, std::size_t byte);
/// Where character `index` begins; the text's size when there are no more.
std::size_t byte_of_character(std::string_view text, std::size_t index);
char32_t character_at(std::string_view text, std::size_t byte);

/// What Python's str.isspace calls white space.
bool is_space(char32_t character);
/// What str.splitlines takes for the end of a line, besides "\r\n".
bool is_line_end(char32_t character);
/// The byte after the leading white space, and the one after the last character that is none.
std::size_t skip_space(std::string_view text, std::size_t byte = 0);
std::size_t end_without_space(std::string_view text);

}  // namespace rocmforge::jinja
