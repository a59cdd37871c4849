#pragma once

#include "models/parts/block.h"
#include "models/parts/residual_output.h"

namespace rocmforge {

/// Kimi Delta Attention: with q, k, v = conv(Wqkv y) and a delta net whose decays are those of single keys,
///   Wo (norm(gated_delta_net(q, k, v, Wb y, Wfb Wfa y)) * sigmoid(Wgb Wga y)),
/// or, with full gates, without Wfb and Wgb.
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
  /// Rows of the convolution, behind those of `latents_`.
  [[nodiscard]] float* convolved(const Step& step) const {
    return step.buffers.*latent_rows() + step.tokens * latents_.linear.width();
  }
  /// Where the rows of `inputs_` and of `latents_` are.
  [[nodiscard]] float* Buffers::*input_rows() const { return config_.full_gates ? &Buffers::gathered : &Buffers::projected; }
  [[nodiscard]] float* Buffers::*latent_rows() const {
    return config_.full_gates ? &Buffers::projected : &Buffers::gathered;
  }
  /// Elements from one token's decays, gates and Wb y in Buffers::projected to the next's.
  [[nodiscard]] std::int64_t stride() const { return (config_.full_gates ? latents_ : inputs_).linear.width(); }
  /// In a row of Buffers::projected: the first element of the gates, and of Wb y.
  [[nodiscard]] std::int64_t gates_at() const { return (config_.full_gates ? 1 : 2) * config_.values(); }
  [[nodiscard]] std::int64_t beta_at() const { return gates_at() + config_.values(); }
  /// Outputs of the delta net, and elements from one token's to the next's.
  [[nodiscard]] float* outputs(const Step& step) const {
    return config_.full_gates ? step.buffers.gathered : step.buffers.projected + config_.values();
  }
  [[nodiscard]] std::int64_t output_stride() const { return config_.full_gates ? config_.values() : stride(); }

  DeltaNetConfig config_;  ///< with the heads of this rank
  Selection rows_;         ///< of tensors with rows for each element of a head: theirs
  Selection heads_;        ///< of those with a row for each head
  FusedLinear inputs_;     ///< q, k, v and Wb (full gates: without Wb), with the norm before them
  FusedLinear latents_;    ///< Wfa and Wga (full gates: and Wb), with the same
  Linear decays_;          ///< Wfb; empty with full gates
  Linear gates_;           ///< Wgb; likewise
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
