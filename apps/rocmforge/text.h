#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "read_text.h"

namespace rocmforge::app {

/// "11.4 MiB"
std::string human_bytes(std::uint64_t bytes);
/// "1.10 B", "361 K"
std::string human_count(std::uint64_t count);
/// printable() in double quotes.
std::string in_quotes(std::string_view text);
bool is_utf8(std::string_view text);
/// Characters a terminal shows for UTF-8 text (code points).
std::size_t text_width(std::string_view text);

/// Integers separated by commas or blanks. Throws UsageError naming `what` and the piece that is none, or is outside
/// [least, most].
std::vector<std::int32_t> parse_integers(std::string_view text, std::string_view what, std::int64_t least,
                                         std::int64_t most);

/// One JSON document on standard output; text that is no UTF-8 is replaced.
/// `indent`: blanks of a level; -1 for all on one line.
void print_json(const nlohmann::ordered_json& document, int indent = 2);

/// Columns that line up. Numbers are right-aligned: a column whose header starts with '>' (which is not shown).
class Table {
 public:
  explicit Table(std::vector<std::string> headers);
  void add(std::vector<std::string> row);
  void print(std::FILE* stream, bool markdown = false) const;
  /// An object for each row, its members named by the headers; what is a number in a column of numbers is one.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  void print_row(std::FILE* stream, const std::vector<std::string>& row, bool markdown) const;

  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rocmforge::app
