#pragma once

#include "models/parts/block.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// Wo (norm(gated_delta_net(conv(Wqkv y), beta, alpha)) * silu(Wz y)), beta and alpha products with y too (Qwen3-Next). Its
/// state is the last inputs of the convolution and a matrix for each value head.
class DeltaNetMixer final : public Mixer {
 public:
  DeltaNetMixer(Planner& planner, const ModelConfig& config, int index);

  [[nodiscard]] bool has_pages() const override { return false; }

 private:
  void take_share(const Planner& planner, const DeltaNetConfig& all, int index);
  void plan_projections(Planner& planner, const ModelConfig& config, int index);
  void plan_states(Planner& planner, const ModelConfig& config, int index);
  void convolve(const Step& step) const;
  void scan(const Step& step) const;
  void gate(const Step& step) const;

  DeltaNetConfig config_;  ///< with the heads of this rank
  Range key_heads_;        ///< these
  Selection value_heads_;
  Selection channels_;  ///< of [queries, keys, values]
  FusedLinear inputs_;  ///< with the norm before it
  Resolved<CausalConv> conv_;
  Resolved<GatedDeltaNet> delta_net_;
  Resolved<OutputGate> output_gate_;
  const WeightVector* conv_weight_ = nullptr;  ///< [channels, taps]
  const WeightVector* rate_ = nullptr;         ///< [value_heads]
  const WeightVector* step_bias_ = nullptr;    ///< [value_heads]
  const WeightVector* norm_ = nullptr;         ///< [value_dim]
  std::int64_t conv_state_ = 0;                ///< offset in each slot
  std::int64_t state_ = 0;                     ///< likewise
  ResidualOutput output_;
};

}  // namespace rocmforge
