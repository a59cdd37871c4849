#include "checks/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::int64_t piece_width = 16;
constexpr double piece_factor = 15.0;
constexpr double element_factor = 60.0;
constexpr double least_norm = 1e-2;

/// Neighbouring numbers of a row that are judged together.
struct Piece {
  std::int64_t row;
  std::int64_t column;
  std::int64_t width;
};

/// What is found in some rows.
struct Part {
  OutputDifference found;
  double norm = 0.0;   ///< sum of the squares of the expected numbers
  double error = 0.0;  ///< of the differences
  double worst_distance = -1.0;
  std::int64_t worst = 0;  ///< index of that number
};

class Comparison {
 public:
  Comparison(std::span<const float> actual, std::span<const float> expected, std::int64_t width, double tolerance)
      : actual_(actual),
        expected_(expected),
        width_(width),
        rows_((static_cast<std::int64_t>(expected.size()) + width - 1) / width),
        tolerance_(tolerance) {}

  OutputDifference result(ThreadPool* pool) {
    constexpr std::int64_t numbers_of_a_part = 1 << 20;
    const std::int64_t rows_of_a_part = std::max<std::int64_t>(1, numbers_of_a_part / width_);
    std::vector<Part> parts(static_cast<std::size_t>((rows_ + rows_of_a_part - 1) / rows_of_a_part));
    const auto for_each_part = [&](const auto& visit) {
      const auto range = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          visit(parts[static_cast<std::size_t>(i)], i * rows_of_a_part, std::min(rows_, (i + 1) * rows_of_a_part));
        }
      };
      const auto count = static_cast<std::int64_t>(parts.size());
      pool != nullptr ? pool->parallel_for(count, 1, range) : range(0, count);
    };
    for_each_part([this](Part& part, std::int64_t first, std::int64_t last) { add_norm(part, first, last); });
    double norm = 0.0;
    for (const Part& part : parts) {
      norm += part.norm;
    }
    const double mean_square = expected_.empty() ? 0.0 : norm / static_cast<double>(expected_.size());
    least_square_ = least_norm * least_norm * mean_square;
    for_each_part([this](Part& part, std::int64_t first, std::int64_t last) { judge_rows(part, first, last); });
    return sum_of(parts, norm);
  }

 private:
  [[nodiscard]] std::int64_t end_of(std::int64_t row) const {
    return std::min((row + 1) * width_, static_cast<std::int64_t>(expected_.size()));
  }

  void add_norm(Part& part, std::int64_t first_row, std::int64_t last_row) const {
    for (std::int64_t i = first_row * width_; i < end_of(last_row - 1); ++i) {
      const float value = at(expected_, i);
      part.norm += std::isfinite(value) ? double{value} * double{value} : 0.0;
    }
  }

  void judge_rows(Part& part, std::int64_t first_row, std::int64_t last_row) const {
    for (std::int64_t row = first_row; row < last_row; ++row) {
      const std::int64_t in_row = end_of(row) - row * width_;
      for (std::int64_t column = 0; column < in_row; column += piece_width) {
        judge({row, column, std::min(piece_width, in_row - column)}, part);
      }
    }
  }

  void judge(const Piece& piece, Part& part) const {
    const std::int64_t first = piece.row * width_ + piece.column;
    double expected = 0.0;
    double error = 0.0;
    for (std::int64_t i = first; i < first + piece.width; ++i) {
      if (comparable(i)) {
        const double distance = this->distance(i);
        expected += double{at(expected_, i)} * double{at(expected_, i)};
        error += distance * distance;
        if (distance > part.worst_distance) {
          part.worst_distance = distance;
          part.worst = i;
        }
      }
    }
    part.error += error;
    const double square = std::max(expected / static_cast<double>(piece.width), least_square_);
    const double allowed = tolerance_ * std::sqrt(square);
    const bool piece_is_wrong = !(std::sqrt(error / static_cast<double>(piece.width)) <= piece_factor * allowed);
    for (std::int64_t i = first; i < first + piece.width; ++i) {
      if (!comparable(i)) {
        const bool same = std::isfinite(at(actual_, i)) == std::isfinite(at(expected_, i));
        part.found.missing += same ? 0 : 1;
        same ? void() : count(i, part);
      } else if (const double distance = this->distance(i);
                 distance > element_factor * allowed || (piece_is_wrong && distance > piece_factor * allowed)) {
        count(i, part);
      }
    }
  }

  void count(std::int64_t index, Part& part) const {
    if (part.found.wrong++ == 0) {
      note(index, part.found);
    }
  }
  void note(std::int64_t index, OutputDifference& found) const {
    found.first_row = index / width_;
    found.first_column = index % width_;
    found.first_actual = at(actual_, index);
    found.first_expected = at(expected_, index);
  }

  [[nodiscard]] OutputDifference sum_of(const std::vector<Part>& parts, double norm) const {
    OutputDifference found;
    found.elements = static_cast<std::int64_t>(expected_.size());
    double error = 0.0;
    const Part* worst = nullptr;
    for (const Part& part : parts) {
      error += part.error;
      worst = worst == nullptr || part.worst_distance > worst->worst_distance ? &part : worst;
      if (found.wrong == 0 && part.found.wrong > 0) {
        found.first_row = part.found.first_row;
        found.first_column = part.found.first_column;
        found.first_actual = part.found.first_actual;
        found.first_expected = part.found.first_expected;
      }
      found.wrong += part.found.wrong;
      found.missing += part.found.missing;
    }
    found.relative = std::sqrt(norm > 0.0 ? error / norm : error);
    if (worst != nullptr && found.wrong == 0 && !(found.relative <= tolerance_)) {
      note(worst->worst, found);
      found.wrong = found.elements;  // no single element stands out: all are a little wrong
    }
    return found;
  }

  [[nodiscard]] bool comparable(std::int64_t i) const {
    return std::isfinite(at(actual_, i)) && std::isfinite(at(expected_, i));
  }
  [[nodiscard]] double distance(std::int64_t i) const { return std::abs(double{at(actual_, i)} - double{at(expected_, i)}); }
  static float at(std::span<const float> values, std::int64_t index) { return values[static_cast<std::size_t>(index)]; }

  std::span<const float> actual_;
  std::span<const float> expected_;
  std::int64_t width_;
  std::int64_t rows_;
  double tolerance_;
  double least_square_ = 0.0;
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
                                 double tolerance, ThreadPool* pool) {
  check(actual.size() == expected.size() && width > 0, "two outputs of one shape are compared");
  return Comparison(actual, expected, width, tolerance).result(pool);
}

}  // namespace rocmforge
