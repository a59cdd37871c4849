#pragma once

#include <cstdint>
#include <vector>

#include "models/parts/operation.h"
#include "models/plan/planner.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// Where a slice of the rows of a step goes.
struct MergedRows {
  float* data = nullptr;    ///< [count, text_width], rows `stride` elements apart
  std::int64_t stride = 0;  ///< VisionConfig::row_width()
  std::int64_t count = 0;   ///< of all images, line ends included
};

/// Puts the rows of squares where the text model has them: StepArrays::overwritten_rows has the row of each square. The rows
/// between them, if any, are the fixed one that ends a line. Not moved.
class RowPlaces {
 public:
  /// For steps of up to `rows`.
  RowPlaces(Planner& planner, const VisionConfig& config, std::int64_t rows);
  RowPlaces(const RowPlaces&) = delete;
  RowPlaces& operator=(const RowPlaces&) = delete;

  /// From `squares` [Step::tokens, text_width] to `out`, whose rows are dense.
  void run(const float* squares, const Step& step, const MergedRows& out) const;

 private:
  std::int64_t width_;
  Resolved<OverwriteRows> place_;
  const WeightVector* line_end_ = nullptr;  ///< null: every row is a square's
  std::vector<std::int32_t> zeros_;
  std::vector<std::int32_t> rows_;  ///< 0, 1, 2, ...
  const IntegerVector* zero_ids_ = nullptr;
  const IntegerVector* row_ids_ = nullptr;
};

}  // namespace rocmforge
