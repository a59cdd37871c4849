#include "service/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

std::string escaped_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {
  check(std::ranges::is_sorted(bounds_), "the bounds of a histogram ascend");
}

void Histogram::observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<std::size_t>(bound - bounds_.begin())];
  ++count_;
  sum_ += value;
}

std::uint64_t Histogram::at_most(std::size_t i) const {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k <= i; ++k) {
    sum += counts_[k];
  }
  return sum;
}

void Exposition::head(std::string_view name, std::string_view help, std::string_view type) {
  text_ += fmt::format("# HELP rocmforge:{} {}\n# TYPE rocmforge:{} {}\n", name, help, name, type);
}

void Exposition::sample(std::string_view name, const Labels& labels, double value) {
  text_ += fmt::format("rocmforge:{}{{", name);
  std::string_view comma;
  for (const Labels* list : std::initializer_list<const Labels*>{&labels_, &labels}) {
    for (const auto& [key, text] : *list) {
      text_ += fmt::format("{}{}=\"{}\"", comma, key, escaped_label(text));
      comma = ",";
    }
  }
  // Counts are written as whole numbers, since some scrapers compare them as text.
  text_ += std::trunc(value) == value && std::abs(value) < 0x1p53 ? fmt::format("}} {}\n", static_cast<std::int64_t>(value))
                                                                  : fmt::format("}} {:.9g}\n", value);
}

void Exposition::gauge(std::string_view name, std::string_view help, double value, const Labels& labels) {
  head(name, help, "gauge");
  sample(name, labels, value);
}

void Exposition::counter(std::string_view name, std::string_view help, double value) {
  const std::string total = fmt::format("{}_total", name);
  head(total, help, "counter");
  sample(total, {}, value);
}

void Exposition::counters(std::string_view name, std::string_view help, std::string_view label,
                          std::span<const std::pair<std::string, std::uint64_t>> values) {
  const std::string total = fmt::format("{}_total", name);
  head(total, help, "counter");
  for (const auto& [text, value] : values) {
    sample(total, {{std::string(label), text}}, static_cast<double>(value));
  }
}

void Exposition::histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
  head(name, help, "histogram");
  const std::string bucket = fmt::format("{}_bucket", name);
  const auto bounds = histogram.bounds();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    sample(bucket, {{"le", fmt::format("{:g}", bounds[i])}}, static_cast<double>(histogram.at_most(i)));
  }
  sample(bucket, {{"le", "+Inf"}}, static_cast<double>(histogram.count()));
  sample(fmt::format("{}_sum", name), {}, histogram.sum());
  sample(fmt::format("{}_count", name), {}, static_cast<double>(histogram.count()));
}

}  // namespace rocmforge
