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

/// Integers separated by commas or blanks. Throws UsageError with `what` and the piece that is not an integer in
/// [least, most].
std::vector<std::int32_t> parse_integers(std::string_view text, std::string_view what, std::int64_t least,
                                         std::int64_t most);

/// Prints a JSON document to standard output; invalid UTF-8 is replaced. `indent`: blanks per level; -1: on one line.
void print_json(const nlohmann::ordered_json& document, int indent = 2);

/// A table with aligned columns. A column whose header starts with '>' (which is not shown) has right-aligned numbers.
class Table {
 public:
  explicit Table(std::vector<std::string> headers);
  void add(std::vector<std::string> row);
  void print(std::FILE* stream, bool markdown = false) const;
  /// An array with an object for each row, whose members are named by the headers. Numbers in columns of numbers become JSON
  /// numbers.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  void print_row(std::FILE* stream, const std::vector<std::string>& row, bool markdown) const;

  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rocmforge::app
