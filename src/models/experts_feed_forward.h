#pragma once

#include <optional>

#include "models/dense_feed_forward.h"
#include "models/routed_experts.h"

namespace rocmforge {

/// Routed experts, and beside them what every token takes: a dense part, or with a gate a part that is multiplied by the
/// gate's sigmoid, which is a single expert that its router gives that weight.
class ExpertsFeedForward final : public FeedForward {
 public:
  ExpertsFeedForward(ExecutionPlan& plan, const ModelConfig& config, int index, const FeedForwardInput& input);

 private:
  std::optional<RoutedExperts> routed_;
  std::optional<RoutedExperts> gated_;
  std::optional<DenseFeedForward> shared_;
};

}  // namespace rocmforge
