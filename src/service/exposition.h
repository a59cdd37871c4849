#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocmforge {

/// A histogram: how many values were at or below each bound. Not thread-safe.
class Histogram {
 public:
  /// `bounds` ascending; values above the last are counted too.
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  /// The number of values at or below bound i.
  [[nodiscard]] std::uint64_t at_most(std::size_t i) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;  // of each interval
  std::uint64_t count_ = 0;
  double sum_ = 0.0;
};

/// Writes Prometheus' text format, version 0.0.4. Every sample has the labels given here.
class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  explicit Exposition(Labels labels) : labels_(std::move(labels)) {}

  void gauge(std::string_view name, std::string_view help, double value, const Labels& labels = {});
  /// `_total` is added to the name.
  void counter(std::string_view name, std::string_view help, double value);
  /// One counter with several values of a label.
  void counters(std::string_view name, std::string_view help, std::string_view label,
                std::span<const std::pair<std::string, std::uint64_t>> values);
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void head(std::string_view name, std::string_view help, std::string_view type);
  void sample(std::string_view name, const Labels& labels, double value);

  Labels labels_;
  std::string text_;
};

}  // namespace rocmforge
