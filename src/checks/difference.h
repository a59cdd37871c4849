#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// How an output differs from the expected one, element by element.
struct OutputDifference {
  std::int64_t elements = 0;
  std::int64_t wrong = 0;    ///< elements that are further away than allowed, or not finite where the expected ones are
  std::int64_t missing = 0;  ///< of these, the ones that are not finite: as a rule they were not written
  std::int64_t first_row = -1;
  std::int64_t first_column = -1;  ///< of the first wrong element
  float first_actual = 0.0f;
  float first_expected = 0.0f;
  double relative = 0.0;  ///< |actual - expected| / |expected|, Euclidean norms over all finite elements

  [[nodiscard]] bool right() const { return wrong == 0; }
};

/// "3 of 512 elements of out are wrong (1 not written), the first in row 7, column 5: 1.5, expected 1.25", for a difference
/// that is not right.
std::string describe(const OutputDifference& difference, std::string_view output);

/// The largest relative error of results whose weights, inputs or storage have this type. It is for activations that are
/// uniform in [-1, 1]. Activations of 8 bits, which quantised weights may meet, have one scale for 32 columns, so that their
/// error depends on the distribution: normal ones, with rarer and larger extremes, are rounded half as precisely again.
double type_tolerance(DType type);

/// Compares rows of `width` numbers, which are all right when
///   - numbers are finite where the expected ones are,
///   - the relative difference of all is at most `tolerance`,
///   - that of each piece of a row (16 numbers, or a whole shorter row) is at most 15 tolerances, and
///   - no number is further away than 60 tolerances times the root mean square of its piece.
/// Of a piece, the norm is at least a hundredth of what pieces have on average: smaller ones are sums that nearly cancel, or
/// 16 gates that an activation closes, whose inputs were rounded at the size of open ones.
/// With a tolerance of 0, numbers must be equal. The result does not depend on `pool`, whose threads share the work.
OutputDifference compare_outputs(std::span<const float> actual, std::span<const float> expected, std::int64_t width,
                                 double tolerance, ThreadPool* pool = nullptr);

}  // namespace rocmforge
