#include "models/config/metadata_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "weights/gguf_value.h"

namespace rocmforge {

MetadataReader::MetadataReader(const GgufFile& file, std::string_view architecture)
    : file_(&file), architecture_(architecture), prefix_(architecture_ + ".") {}

bool MetadataReader::contains(std::string_view key) { return file_->contains(ask(key)); }

void MetadataReader::require(std::string_view key) {
  if (!contains(key)) {
    throw error(key, "is missing");
  }
}

std::int32_t MetadataReader::count(std::string_view key) {
  const std::string name = ask(key);
  const auto values = file_->integers(name);
  if (!values) {
    throw error(key, "is missing");
  }
  if (values->empty()) {
    throw error(key, "is an empty array");
  }
  const std::int64_t value = values->front();
  if (std::any_of(values->begin(), values->end(), [&](std::int64_t other) { return other != value; })) {
    constexpr std::size_t shown = 8;
    const std::span first(values->data(), std::min(values->size(), shown));
    throw error(key, fmt::format("differs between layers ({}{}), which is not supported", fmt::join(first, ", "),
                                 values->size() > shown ? ", ..." : ""));
  }
  return in_range(key, value);
}

std::int32_t MetadataReader::in_range(std::string_view key, std::int64_t value, std::int32_t least) const {
  if (value < least || value > std::numeric_limits<std::int32_t>::max()) {
    throw error(key, fmt::format("is {}, it must be in [{}, 2^31)", value, least));
  }
  return static_cast<std::int32_t>(value);
}

std::vector<std::int32_t> MetadataReader::counts(std::string_view key, std::int32_t layers, std::int32_t least) {
  std::vector<std::int32_t> counts = list(key, least);
  if (counts.size() == 1) {
    counts.resize(static_cast<std::size_t>(layers), counts.front());
  }
  if (counts.size() != static_cast<std::size_t>(layers)) {
    throw error(key, fmt::format("has {} values for {} layers", counts.size(), layers));
  }
  return counts;
}

std::vector<std::int32_t> MetadataReader::list(std::string_view key, std::int32_t least) {
  const auto values = file_->integers(ask(key));
  if (!values || values->empty()) {
    return {count(key)};  // which says what is wrong
  }
  std::vector<std::int32_t> counts;
  for (const std::int64_t value : *values) {
    counts.push_back(in_range(key, value, least));
  }
  return counts;
}

std::int32_t MetadataReader::count(std::string_view key, std::int32_t fallback) {
  return contains(key) ? count(key) : fallback;
}

double MetadataReader::number(std::string_view key) {
  const double value = file_->number(ask(key));
  if (!std::isfinite(value)) {
    throw error(key, fmt::format("is {}", value));
  }
  return value;
}

std::vector<double> MetadataReader::numbers(std::string_view key, std::int32_t layers) {
  std::vector<double> values = file_->numbers(ask(key)).value_or(std::vector<double>());
  if (values.empty()) {
    values.push_back(number(key));  // which says what is wrong
  }
  if (values.size() == 1) {
    values.resize(static_cast<std::size_t>(layers), values.front());
  }
  if (values.size() != static_cast<std::size_t>(layers)) {
    throw error(key, fmt::format("has {} values for {} layers", values.size(), layers));
  }
  if (const auto bad = std::ranges::find_if_not(values, [](double value) { return std::isfinite(value); });
      bad != values.end()) {
    throw error(key, fmt::format("has the value {}", *bad));
  }
  return values;
}

double MetadataReader::number(std::string_view key, double fallback) { return contains(key) ? number(key) : fallback; }

bool MetadataReader::flag(std::string_view key, bool fallback) { return file_->boolean(ask(key), fallback); }

std::string MetadataReader::string(std::string_view key, std::string_view fallback) {
  return file_->string(ask(key), fallback);
}

Error MetadataReader::error(std::string_view key, std::string_view what) const {
  return Error(fmt::format("{}: key {} {}", file_->path().string(), quote(full(key)), what));
}

std::vector<std::string> MetadataReader::unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : file_->metadata()) {
    if (key.starts_with(prefix_) && !asked_.contains(key)) {
      keys.push_back(quote(key));
    }
  }
  return keys;
}

std::string MetadataReader::ask(std::string_view key) { return *asked_.insert(full(key)).first; }

}  // namespace rocmforge
