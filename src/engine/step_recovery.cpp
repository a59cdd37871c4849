#include "engine/step_recovery.h"

#include <algorithm>

namespace rocmforge {

std::optional<RequestId> StepRecovery::failed(std::span<const ScheduledChunk> step) {
  if (!suspects_.empty() && !step.empty()) {
    const RequestId id = suspects_.back();
    suspects_.pop_back();
    return id;
  }
  if (++failures_ < most_attempts) {
    return std::nullopt;
  }
  failures_ = 0;
  if (step.empty()) {
    return 0;
  }
  suspects_.clear();
  for (std::size_t i = step.size(); i-- > 0;) {
    if (step[i].sequence != nullptr) {  // otherwise it has ended
      suspects_.push_back(step[i].sequence->id);
    }
  }
  return std::nullopt;
}

void StepRecovery::succeeded() {
  failures_ = 0;
  if (!suspects_.empty()) {
    suspects_.pop_back();
  }
}

void StepRecovery::narrow(std::vector<ScheduledChunk>& step) {
  while (!suspects_.empty()) {
    const auto found =
        std::ranges::find(step, suspects_.back(), [](const ScheduledChunk& chunk) { return chunk.sequence->id; });
    if (found != step.end()) {
      std::iter_swap(step.begin(), found);
      step.resize(1);
      return;
    }
    suspects_.pop_back();  // it has ended, or lost its pages
  }
}

}  // namespace rocmforge
