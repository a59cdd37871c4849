#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The mean of neighbouring rows, times a factor. Not moved.
class RowMean {
 public:
  /// Of `count` rows of `width` elements each, for steps of up to `rows` means.
  RowMean(Planner& planner, std::int64_t width, std::int64_t count, std::int64_t rows, float factor = 1.0f);
  RowMean(const RowMean&) = delete;
  RowMean& operator=(const RowMean&) = delete;

  /// From `x` [Step::tokens x count, width] to `out` [Step::tokens, width].
  void run(const Step& step, const float* x, float* out) const;
  /// 0, 1, 2, ...
  [[nodiscard]] const IntegerVector& row_ids() const { return *row_ids_; }
  [[nodiscard]] const Resolved<OverwriteRows>& add() const { return add_; }
  [[nodiscard]] const Resolved<Scale>& scale() const { return scale_; }

 private:
  std::int64_t width_;
  std::int64_t count_;
  float factor_;
  std::vector<std::int32_t> rows_;
  Resolved<OverwriteRows> add_;
  Resolved<Scale> scale_;
  const IntegerVector* row_ids_ = nullptr;
};

}  // namespace rocmforge
