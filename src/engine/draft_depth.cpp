#include "engine/draft_depth.h"

#include <algorithm>

namespace rocmforge {

namespace {

constexpr double kept_weight = 0.97;  // of earlier steps with each further one
constexpr double least_spread = 1.0;  // of the rows, below which the line's slope is not known
constexpr double most_seconds = 3.0;  // of a step, relative to the mean: more is no cost of rows

}  // namespace

void StepCost::add(std::int32_t rows, double seconds) {
  if (weight_ > 1.0) {
    seconds = std::min(seconds, most_seconds * mean_seconds_);
  }
  weight_ = kept_weight * weight_ + 1.0;
  const double from_rows = rows - mean_rows_;
  const double from_seconds = seconds - mean_seconds_;
  mean_rows_ += from_rows / weight_;
  mean_seconds_ += from_seconds / weight_;
  rows_rows_ = kept_weight * rows_rows_ + from_rows * (rows - mean_rows_);
  rows_seconds_ = kept_weight * rows_seconds_ + from_rows * (seconds - mean_seconds_);
}

double StepCost::cost_of_row(std::int32_t rows) const {
  if (rows_rows_ < least_spread) {
    return assumed_cost;
  }
  const double of_row = std::max(rows_seconds_ / rows_rows_, 0.0);
  const double step = mean_seconds_ + of_row * (rows - mean_rows_);
  return of_row * rows < step ? of_row * rows / step : 1.0;
}

void AcceptedRate::take(std::int32_t drafted, std::int32_t accepted) {
  for (std::int32_t i = 0; i < std::min(accepted + 1, drafted); ++i) {
    rate_ += weight_ * ((i < accepted ? 1.0 : 0.0) - rate_);
  }
}

std::int32_t DraftDepth::next(std::int32_t most, double least, double usual) {
  least_ = least;
  if (pauses()) {
    return 0;
  }
  if (!had_drafts_) {
    accepted_.begin_with(usual);
  }
  const double rate = accepted_.rate();
  std::int32_t depth = 0;
  for (double likely = rate; depth < most && likely >= least; likely *= rate) {
    ++depth;
  }
  return std::max(depth, std::min(most, 1));  // after a pause one token is tried
}

void DraftDepth::take(std::int32_t drafted, std::int32_t accepted) {
  if (drafted == 0) {
    pause_left_ = std::max(pause_left_ - 1, 0);
    return;
  }
  had_drafts_ = true;
  accepted_.take(drafted, accepted);
  if (accepted_.rate() >= least_) {
    pause_ = 0;
  } else {
    pause_ = accepted > 0 ? first_pause : std::clamp(2 * pause_, first_pause, longest_pause);
    pause_left_ = pause_;
  }
}

}  // namespace rocmforge
