#include "models/vision/row_places.h"

#include <numeric>

namespace rocmforge {

RowPlaces::RowPlaces(Planner& planner, const VisionConfig& config, std::int64_t rows) : width_(config.text_width) {
  check(config.row_width() == width_, "rows that are placed have one slice");
  place_ = planner.resolve<OverwriteRows>({width_});
  rows_.resize(static_cast<std::size_t>(rows));
  std::iota(rows_.begin(), rows_.end(), 0);
  row_ids_ = planner.weights().constants(rows_);
  if (config.line_ends) {
    line_end_ = planner.vector("v.token_embd.img_break", width_);
    zeros_.assign(rows_.size(), 0);
    zero_ids_ = planner.weights().constants(zeros_);
  }
}

void RowPlaces::run(const float* squares, const Step& step, const MergedRows& out) const {
  const auto put = [&](const float* x, const std::int32_t* from, const std::int32_t* to, std::int64_t count) {
    place_.run({.x = x, .x_stride = width_, .from = from, .ids = to, .count = count, .out = out.data}, step);
  };
  if (line_end_ != nullptr) {
    put(line_end_->data, zero_ids_->data, row_ids_->data, out.count);
  }
  put(squares, row_ids_->data, step.arrays->overwritten_rows, step.tokens);
}

}  // namespace rocmforge
