#pragma once

#include "models/parts/block.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// Kimi Delta Attention: with q, k, v = conv(Wqkv y) and a delta net whose decays are those of single keys,
///   Wo (norm(gated_delta_net(q, k, v, Wb y, Wfb Wfa y)) * sigmoid(Wgb Wga y)).
/// All heads have keys and values of their own. The state is that of DeltaNetMixer.
class KimiDeltaMixer final : public Mixer {
 public:
  KimiDeltaMixer(Planner& planner, const ModelConfig& config, int index);

  [[nodiscard]] bool has_pages() const override { return false; }

 private:
  void plan_projections(Planner& planner, const ModelConfig& config, int index);
  void plan_states(Planner& planner, const ModelConfig& config, int index);
  void add_operations();
  void convolve(const Step& step) const;
  void make_decays(const Step& step) const;
  void scan(const Step& step) const;
  void make_gates(const Step& step) const;
  void gate(const Step& step) const;
  /// Elements from one token's row of Buffers::projected to the next's.
  [[nodiscard]] std::int64_t stride() const { return inputs_.linear.width(); }
  /// Rows of the convolution, in Buffers::gathered.
  [[nodiscard]] float* convolved(const Step& step) const {
    return step.buffers.gathered + step.tokens * latents_.linear.width();
  }

  DeltaNetConfig config_;  ///< with the heads of this rank
  Selection rows_;         ///< of tensors with rows for each element of a head: theirs
  Selection heads_;        ///< of those with a row for each head
  FusedLinear inputs_;     ///< q, k, v and Wb, with the norm before them
  FusedLinear latents_;    ///< Wfa and Wga, with the same
  Linear decays_;          ///< Wfb
  Linear gates_;           ///< Wgb
  Resolved<CausalConv> conv_;
  Resolved<GatedDeltaNet> delta_net_;
  Resolved<OutputGate> output_gate_;
  const WeightVector* conv_weight_ = nullptr;  ///< [channels, taps]
  const WeightVector* rate_ = nullptr;         ///< [heads]
  const WeightVector* step_bias_ = nullptr;    ///< [heads, key_dim]
  const WeightVector* norm_ = nullptr;         ///< [value_dim]
  std::int64_t conv_state_ = 0;                ///< offset in each slot
  std::int64_t state_ = 0;                     ///< likewise
  ResidualOutput output_;
};

}  // namespace rocmforge
