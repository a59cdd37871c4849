#include "models/step/step_draws.h"

#include <algorithm>

namespace rocmforge {

StepDraws::StepDraws(Device& device, std::int32_t most_rows) : device_(&device) {
  for (DrawnStep& step : steps_) {
    step.tokens = device.allocate_pinned(static_cast<std::size_t>(most_rows) * sizeof(std::int32_t));
    step.probabilities = device.allocate_pinned(static_cast<std::size_t>(most_rows) * sizeof(float));
    if (device.is_gpu()) {
      step.copied.emplace(device);
    }
  }
}

void StepDraws::add(const std::int32_t* drawn, const float* probabilities, std::int32_t rows) {
  newest_ = 1 - newest_;
  DrawnStep& step = steps_[newest_];
  step.rows = rows;
  step.pending = false;
  step.has_probabilities = probabilities != nullptr && rows > 0;
  if (rows == 0) {
    return;
  }
  if (!step.copied) {
    std::copy_n(drawn, rows, step.tokens.as<std::int32_t>());
    if (step.has_probabilities) {
      std::copy_n(probabilities, rows, step.probabilities.as<float>());
    }
    return;
  }
  Stream& stream = device_->stream();
  stream.copy_to_host(step.tokens.data(), drawn, static_cast<std::size_t>(rows) * sizeof(std::int32_t));
  if (step.has_probabilities) {
    stream.copy_to_host(step.probabilities.data(), probabilities, static_cast<std::size_t>(rows) * sizeof(float));
  }
  stream.record(*step.copied);
  step.pending = true;
}

std::span<const float> StepDraws::probabilities() {
  DrawnStep& step = steps_[newest_];
  if (!step.has_probabilities) {
    return {};
  }
  return {step.probabilities.as<float>(), tokens(step).size()};  // waits
}

std::span<const std::int32_t> StepDraws::tokens(DrawnStep& step) {
  if (step.pending) {
    step.copied->synchronize();
    step.pending = false;
  }
  return {step.tokens.as<std::int32_t>(), static_cast<std::size_t>(step.rows)};
}

}  // namespace rocmforge
