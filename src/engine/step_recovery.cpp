#include "engine/step_recovery.h"

#include <algorithm>

namespace rocmforge {

std::optional<RequestId> StepRecovery::failed(std::span<const ScheduledChunk> step) {
  if (!suspects_.empty() && !step.empty()) {
    const RequestId id = suspects_.front();
    suspects_.pop_front();
    return id;
  }
  if (++failures_ < most_attempts) {
    return std::nullopt;
  }
  failures_ = 0;
  if (step.empty()) {
    return 0;
  }
  for (const ScheduledChunk& chunk : step) {
    if (chunk.sequence != nullptr) {  // else it has ended
      suspects_.push_back(chunk.sequence->id);
    }
  }
  return std::nullopt;
}

void StepRecovery::succeeded() {
  failures_ = 0;
  if (!suspects_.empty()) {
    suspects_.pop_front();
  }
}

void StepRecovery::narrow(std::vector<ScheduledChunk>& step) {
  while (!suspects_.empty()) {
    const auto found =
        std::ranges::find(step, suspects_.front(), [](const ScheduledChunk& chunk) { return chunk.sequence->id; });
    if (found != step.end()) {
      step = {*found};
      return;
    }
    suspects_.pop_front();  // has ended, or has lost its pages
  }
}

}  // namespace rocmforge
