#include "base/base64.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace rocmforge {
namespace {

constexpr std::uint8_t no_digit = 255, blank = 254;

constexpr std::array<std::uint8_t, 256> values = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_digit);
  std::uint8_t value = 0;
  for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
    table[static_cast<std::uint8_t>(c)] = value++;
  }
  table['-'] = table['+'];
  table['_'] = table['/'];
  for (const char c : std::string_view(" \t\r\n")) {
    table[static_cast<std::uint8_t>(c)] = blank;
  }
  return table;
}();

}  // namespace

std::optional<std::string> decode_base64(std::string_view code) {
  code = code.substr(0, code.find_last_not_of("= \t\r\n") + 1);
  std::string bytes;
  bytes.reserve(code.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  std::size_t digits = 0;
  for (const char c : code) {
    const std::uint8_t value = values[static_cast<std::uint8_t>(c)];
    if (value == no_digit) {
      return std::nullopt;
    }
    if (value == blank) {
      continue;
    }
    bits = bits << 6 | value;
    if (++digits % 4 != 1) {  // each digit but the first of four completes a byte
      bytes += static_cast<char>(bits >> (6 - 2 * ((digits - 1) % 4)) & 255);
    }
  }
  return digits % 4 == 1 ? std::nullopt : std::optional(std::move(bytes));
}

}  // namespace rocmforge
