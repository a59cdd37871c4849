#include "load/load_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr std::int32_t most_length = 1 << 24;

std::int32_t parse_count(std::string_view flag, const std::string& whole, std::string_view part) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || end != part.data() + part.size() || value < 1 || value > most_length) {
    throw UsageError(
        fmt::format("{}: '{}' is not a length like 512, 100-900 or 512~64 (1 to {} tokens)", flag, whole, most_length));
  }
  return value;
}

}  // namespace

Lengths Lengths::parse(std::string_view flag, const std::string& text) {
  Lengths lengths;
  lengths.text_ = text;
  const std::size_t at = text.find_first_of("-~");
  const std::int32_t first = parse_count(flag, text, std::string_view(text).substr(0, at));
  lengths.least_ = lengths.most_ = first;
  if (at == std::string::npos) {
    return lengths;
  }
  const std::int32_t second = parse_count(flag, text, std::string_view(text).substr(at + 1));
  if (text[at] == '~') {
    lengths.mean_ = first;
    lengths.deviation_ = second;
    lengths.least_ = 1;
    lengths.most_ = most_length;
  } else if (second < first) {
    throw UsageError(fmt::format("{}: '{}' runs backwards", flag, text));
  } else {
    lengths.most_ = second;
  }
  return lengths;
}

std::int32_t Lengths::draw(std::mt19937_64& random) const {
  if (deviation_ > 0.0) {
    const double value = std::round(std::normal_distribution<double>(mean_, deviation_)(random));
    return static_cast<std::int32_t>(std::clamp<double>(value, least_, most_));
  }
  return std::uniform_int_distribution<std::int32_t>(least_, most_)(random);
}

}  // namespace rocmforge::app
