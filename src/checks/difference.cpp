#include "checks/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::int64_t piece_width = 16;
constexpr double piece_factor = 15.0;
constexpr double element_factor = 60.0;
constexpr double least_norm = 1e-3;

/// Neighbouring numbers of a row that are judged together.
struct Piece {
  std::int64_t row;
  std::int64_t column;
  std::int64_t width;
};

template <class Visit>
void for_each_piece(std::int64_t count, std::int64_t width, const Visit& visit) {
  for (std::int64_t first = 0; first < count; first += width) {
    const std::int64_t in_row = std::min(width, count - first);
    for (std::int64_t column = 0; column < in_row; column += piece_width) {
      visit(Piece{first / width, column, std::min(piece_width, in_row - column)});
    }
  }
}

class Comparison {
 public:
  Comparison(std::span<const float> actual, std::span<const float> expected, std::int64_t width, double tolerance)
      : actual_(actual), expected_(expected), width_(width), tolerance_(tolerance) {
    for (const float value : expected) {
      norm_ += std::isfinite(value) ? double{value} * double{value} : 0.0;
    }
    const double mean_square = expected.empty() ? 0.0 : norm_ / static_cast<double>(expected.size());
    least_square_ = least_norm * least_norm * mean_square;
    found_.elements = static_cast<std::int64_t>(expected.size());
  }

  OutputDifference result() {
    for_each_piece(found_.elements, width_, [this](const Piece& piece) { judge(piece); });
    found_.relative = std::sqrt(norm_ > 0.0 ? error_ / norm_ : error_);
    if (found_.wrong == 0 && !(found_.relative <= tolerance_)) {
      note(worst_);
      found_.wrong = found_.elements;  // no single element stands out: all are a little wrong
    }
    return found_;
  }

 private:
  void judge(const Piece& piece) {
    const std::int64_t first = piece.row * width_ + piece.column;
    double expected = 0.0;
    double error = 0.0;
    for (std::int64_t i = first; i < first + piece.width; ++i) {
      if (comparable(i)) {
        const double distance = this->distance(i);
        expected += double{at(expected_, i)} * double{at(expected_, i)};
        error += distance * distance;
        if (distance > worst_distance_) {
          worst_distance_ = distance;
          worst_ = i;
        }
      }
    }
    error_ += error;
    const double square = std::max(expected / static_cast<double>(piece.width), least_square_);
    const double allowed = tolerance_ * std::sqrt(square);
    const bool piece_is_wrong = !(std::sqrt(error / static_cast<double>(piece.width)) <= piece_factor * allowed);
    for (std::int64_t i = first; i < first + piece.width; ++i) {
      if (!comparable(i)) {
        const bool same = std::isfinite(at(actual_, i)) == std::isfinite(at(expected_, i));
        found_.missing += same ? 0 : 1;
        same ? void() : count(i);
      } else if (const double distance = this->distance(i);
                 distance > element_factor * allowed || (piece_is_wrong && distance > piece_factor * allowed)) {
        count(i);
      }
    }
  }

  void count(std::int64_t index) {
    if (found_.wrong++ == 0) {
      note(index);
    }
  }
  void note(std::int64_t index) {
    found_.first_row = index / width_;
    found_.first_column = index % width_;
    found_.first_actual = at(actual_, index);
    found_.first_expected = at(expected_, index);
  }
  [[nodiscard]] bool comparable(std::int64_t i) const {
    return std::isfinite(at(actual_, i)) && std::isfinite(at(expected_, i));
  }
  [[nodiscard]] double distance(std::int64_t i) const { return std::abs(double{at(actual_, i)} - double{at(expected_, i)}); }
  static float at(std::span<const float> values, std::int64_t index) { return values[static_cast<std::size_t>(index)]; }

  std::span<const float> actual_;
  std::span<const float> expected_;
  std::int64_t width_;
  double tolerance_;
  double norm_ = 0.0;
  double least_square_ = 0.0;
  double error_ = 0.0;
  double worst_distance_ = -1.0;
  std::int64_t worst_ = 0;
  OutputDifference found_;
};

}  // namespace

std::string describe(const OutputDifference& difference, std::string_view output) {
  return fmt::format("{} of {} elements of {} are wrong{}, the first in row {}, column {}: {:g}, expected {:g}",
                     difference.wrong, difference.elements, output,
                     difference.missing > 0 ? fmt::format(" ({} not written)", difference.missing) : "",
                     difference.first_row, difference.first_column, difference.first_actual, difference.first_expected);
}

double type_tolerance(DType type) {
  switch (type) {
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    default:
      return 5e-3;
  }
}

OutputDifference compare_outputs(std::span<const float> actual, std::span<const float> expected, std::int64_t width,
                                 double tolerance) {
  check(actual.size() == expected.size() && width > 0, "two outputs of one shape are compared");
  return Comparison(actual, expected, width, tolerance).result();
}

}  // namespace rocmforge
