#include "models/step/step_draws.h"

#include <algorithm>

namespace rocmforge {

StepDraws::StepDraws(Device& device, std::int32_t most_rows) : device_(&device) {
  for (DrawnStep& step : steps_) {
    step.tokens = device.allocate_pinned(static_cast<std::size_t>(most_rows) * sizeof(std::int32_t));
    if (device.is_gpu()) {
      step.copied.emplace(device);
    }
  }
}

void StepDraws::add(const std::int32_t* drawn, std::int32_t rows) {
  newest_ = 1 - newest_;
  DrawnStep& step = steps_[newest_];
  step.rows = rows;
  step.pending = false;
  if (rows == 0) {
    return;
  }
  if (!step.copied) {
    std::copy_n(drawn, rows, step.tokens.as<std::int32_t>());
    return;
  }
  Stream& stream = device_->stream();
  stream.copy_to_host(step.tokens.data(), drawn, static_cast<std::size_t>(rows) * sizeof(std::int32_t));
  stream.record(*step.copied);
  step.pending = true;
}

std::span<const std::int32_t> StepDraws::tokens(DrawnStep& step) {
  if (step.pending) {
    step.copied->synchronize();
    step.pending = false;
  }
  return {step.tokens.as<std::int32_t>(), static_cast<std::size_t>(step.rows)};
}

}  // namespace rocmforge
