#pragma once

#include <optional>

#include "models/dense_feed_forward.h"
#include "models/routed_experts.h"

namespace rocmforge {

/// Routed experts, and beside them what every token takes, the shared expert: one more of the stacked experts, or a part of
/// its own. That is a dense one, or with a gate, whose sigmoid multiplies it, a single expert to which its router gives that
/// weight.
class ExpertsFeedForward final : public FeedForward {
 public:
  ExpertsFeedForward(ExecutionPlan& plan, const ModelConfig& config, int index, const FeedForwardInput& input);

 private:
  std::optional<RoutedExperts> routed_;
  std::optional<RoutedExperts> gated_;
  std::optional<DenseFeedForward> shared_;
};

}  // namespace rocmforge
