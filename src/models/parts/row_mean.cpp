#include "models/parts/row_mean.h"

#include <numeric>

namespace rocmforge {

RowMean::RowMean(Planner& planner, std::int64_t width, std::int64_t count, std::int64_t rows, float factor)
    : width_(width), count_(count), factor_(factor / static_cast<float>(count)), rows_(static_cast<std::size_t>(rows)) {
  add_ = planner.resolve<OverwriteRows>({width_});
  scale_ = planner.resolve_for_width<Scale>({}, 2 * width_);
  std::iota(rows_.begin(), rows_.end(), 0);
  row_ids_ = planner.weights().constants(rows_);
}

void RowMean::run(const Step& step, const float* x, float* out) const {
  for (std::int64_t i = 0; i < count_; ++i) {
    add_.run({.x = x + i * width_,
              .x_stride = count_ * width_,
              .from = row_ids_->data,
              .ids = row_ids_->data,
              .count = step.tokens,
              .out = out,
              .add = i > 0},
             step);
  }
  scale_.run({.x = out, .count = step.tokens * width_, .factor = factor_}, step);
}

}  // namespace rocmforge
