#pragma once

#include <cstdint>
#include <optional>

#include "models/parts/dense_feed_forward.h"
#include "models/parts/residual_output.h"
#include "models/parts/routed_experts.h"

namespace rocmforge {

/// Routed experts and a shared expert. The shared expert is one more of the stacked experts, or a part of its own: a dense
/// part, or with a gate a single expert whose weight is the gate's sigmoid. Routed experts may work on latents; the router
/// and the shared expert work on x:
///   h += residual_scale * ffn_latent_up (sum of weight_e * expert_e(ffn_latent_down x)) + shared(x),  x = ffn_norm(h)
/// or, where the weight multiplies what a token's one expert reads,
///   h += residual_scale * expert_e(weight_e * x) + shared(x)
class ExpertsFeedForward final : public FeedForward {
 public:
  ExpertsFeedForward(Planner& planner, const ModelConfig& config, int index, const FeedForwardInput& input);

 private:
  /// The products around routed experts that work on latents of `size`.
  struct Latents {
    std::int64_t size = 0;
    Linear down;
    ResidualOutput up;
    Resolved<Scale> clear;  ///< sets zeros, to which the experts add
  };
  void plan_shared(Planner& planner, const ModelConfig& config, int index, RoutedExperts::Config routed);
  /// Up to the products with gate and up; and behind them.
  void begin_routed(float* Buffers::*x);
  /// Buffers::gathered gets the rows times the weights of their experts.
  void weigh(const Step& step) const;
  void end_routed();

  /// To Buffers::hidden, or where ranks share the layer to partial, which is summed behind all experts.
  [[nodiscard]] float* Buffers::*sum_of_experts() const { return rank_sum_ ? &Buffers::partial : &Buffers::hidden; }

  std::optional<RankSum> rank_sum_;
  std::optional<ClearPartial> clear_partial_;
  std::optional<RoutedExperts> routed_;
  std::optional<Latents> latents_;
  Resolved<OutputGate> weigh_;  ///< where weights multiply inputs; else without a kernel
  std::optional<RoutedExperts> gated_;
  std::optional<DenseFeedForward> shared_;
};

}  // namespace rocmforge
