#pragma once

#include <algorithm>
#include <string>

namespace rocmforge {

/// The case of ASCII letters, whatever the locale; all other bytes stay.
constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

inline std::string ascii_lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return ascii_lower(c); });
  return text;
}
inline std::string ascii_upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return ascii_upper(c); });
  return text;
}

}  // namespace rocmforge
