#include "terminal/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "usage_error.h"

namespace rocmforge::app {

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < units.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 10.0 ? 2 : 1, units[unit]);
}

std::string human_count(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) {
    return fmt::format("{:.2f} B", value / 1e9);
  }
  if (value >= 1e6) {
    return fmt::format("{:.2f} M", value / 1e6);
  }
  return value >= 1e3 ? fmt::format("{:.0f} K", value / 1e3) : fmt::format("{}", count);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Unit unit = utf8_unit(text, 0);
    if (unit.kind != Utf8Unit::Kind::character) {
      return false;
    }
    text.remove_prefix(unit.length);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return '"' + printable(escaped) + '"';
}

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

std::vector<std::int32_t> parse_integers(std::string_view text, std::string_view what, std::int64_t least,
                                         std::int64_t most) {
  std::vector<std::int32_t> values;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(", \t\n", begin)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(", \t\n", begin), text.size());
    const std::string_view piece = text.substr(begin, end - begin);
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
    if (error != std::errc() || stop != piece.data() + piece.size()) {
      throw UsageError(fmt::format("{}: {} is not an integer", what, in_quotes(piece)));
    }
    if (value < least || value > most) {
      throw UsageError(fmt::format("{}: {} is outside {} to {}", what, value, least, most));
    }
    values.push_back(static_cast<std::int32_t>(value));
    begin = end;
  }
  return values;
}

void print_json(const nlohmann::ordered_json& document, int indent) {
  fmt::print("{}\n", document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
  for (std::string& header : headers_) {
    right_.push_back(header.starts_with('>'));
    header.erase(0, right_.back() ? 1 : 0);
    widths_.push_back(text_width(header));
  }
}

void Table::add(std::vector<std::string> row) {
  check(row.size() == headers_.size(), "a row has one cell per column");
  for (std::size_t i = 0; i < row.size(); ++i) {
    widths_[i] = std::max(widths_[i], text_width(row[i]));
  }
  rows_.push_back(std::move(row));
}

void Table::print_row(std::FILE* stream, const std::vector<std::string>& row, bool markdown) const {
  std::string line = markdown ? "| " : "";
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string space(widths_[i] - text_width(row[i]), ' ');
    const bool last = i + 1 == row.size();
    line += right_[i] ? space + row[i] : row[i] + (last && !markdown ? "" : space);
    line += markdown ? (last ? " |" : " | ") : (last ? "" : "  ");
  }
  fmt::print(stream, "{}\n", line);
}

nlohmann::ordered_json Table::json() const {
  auto out = nlohmann::ordered_json::array();
  for (const auto& row : rows_) {
    auto object = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto number = right_[i] ? nlohmann::ordered_json::parse(row[i], nullptr, false) : nlohmann::ordered_json();
      object[headers_[i]] = number.is_number() ? number : nlohmann::ordered_json(row[i]);
    }
    out.push_back(std::move(object));
  }
  return out;
}

void Table::print(std::FILE* stream, bool markdown) const {
  print_row(stream, headers_, markdown);
  if (markdown) {
    std::string line = "|";
    for (std::size_t i = 0; i < headers_.size(); ++i) {
      line += " " + std::string(widths_[i] - (right_[i] ? 1 : 0), '-') + (right_[i] ? ": |" : " |");
    }
    fmt::print(stream, "{}\n", line);
  }
  for (const auto& row : rows_) {
    print_row(stream, row, markdown);
  }
}

}  // namespace rocmforge::app
