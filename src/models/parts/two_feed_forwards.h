#pragma once

#include <optional>

#include "models/parts/block.h"
#include "models/parts/routed_experts.h"

namespace rocmforge {

/// A dense part and routed experts in parallel, each with norms of its own (Gemma 4):
///   d = post_ffw_norm_1(dense(ffn_norm(h)));  e = post_ffw_norm_2(experts(pre_ffw_norm_2(h)))
///   h = (h + residual_scale * ffn_post_norm(d + e)) * output_scale
/// The router reads norm(h) * ffn_gate_inp.scale / sqrt(hidden).
class TwoFeedForwards final : public FeedForward {
 public:
  TwoFeedForwards(Planner& planner, const ModelConfig& config, int index);

 private:
  void plan_dense(Planner& planner, const ModelConfig& config, int index);
  void plan_experts(Planner& planner, const ModelConfig& config, int index);
  /// Zeroes Buffers::normed, where down adds up the experts' sum. The experts' input in it is no longer needed.
  void clear(const Step& step) const;

  std::int64_t hidden_;
  std::optional<RankSum> rank_sum_;
  std::optional<ClearPartial> clear_partial_;
  FusedLinear up_;  ///< of the dense part, with its norm and activation
  Linear down_;
  Norm dense_post_norm_;
  Norm experts_norm_;
  std::optional<RoutedExperts> experts_;
  Norm experts_post_norm_;
  Norm post_norm_;
  Resolved<Scale> scale_;
};

}  // namespace rocmforge
