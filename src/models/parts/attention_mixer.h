#pragma once

#include <optional>

#include "models/parts/block.h"
#include "models/parts/residual_output.h"
#include "models/step/step_attention.h"

namespace rocmforge {

/// Multi-head attention with shared KV heads: Wo attention(rope(Wq x), rope(Wk x), Wv x), with biases, norms of Q and K,
/// rotation and window as LayerConfig::attention says. Q, K and V are three tensors of the file, or one tensor.
class AttentionMixer final : public Mixer {
 public:
  /// `shared`: the place of the K and V of AttentionConfig::keys_of. `into`: see ResidualOutput.
  AttentionMixer(Planner& planner, const ModelConfig& config, int index, const std::optional<KvPlace>& shared,
                 float* Buffers::*into = nullptr);

  [[nodiscard]] FusedLinear* first_product() override { return config_.joined_input ? nullptr : &qkv_; }
  [[nodiscard]] ResidualSum* sum() override { return output_.sum(); }
  [[nodiscard]] bool has_pages() const override { return true; }

 private:
  /// The heads of this rank.
  void take_share(const Planner& planner, const AttentionConfig& all, int index);
  void plan_projections(Planner& planner, const ModelConfig& config, int index);
  /// `elements`: the order of a head's elements.
  void plan_norms(Planner& planner, const ModelConfig& config, int index, const Selection& elements);
  void plan_attention(Planner& planner, const ModelConfig& config, int index, const std::optional<KvPlace>& shared);
  /// Normalises Q and K where that is not part of RopeAppend.
  void normalise_rows(const Step& step) const;
  /// Rotates Q and K, and appends K and V to the cache if they are the layer's own.
  [[nodiscard]] Attention::Append append_of(const Step& step) const;
  /// Whether attention's call includes append_of() in this step.
  [[nodiscard]] bool attention_appends(const Step& step) const;
  void append_keys(const Step& step) const;
  void attend(const Step& step) const;
  /// Multiplies the heads' outputs by their gates.
  void gate(const Step& step) const;

  AttentionConfig config_;          ///< with the heads of this rank
  FusedLinear qkv_;                 ///< with the norm before it
  std::optional<Norm> q_row_norm_;  ///< QkNorm::vectors, layer_heads
  std::optional<Norm> k_row_norm_;  ///< likewise
  Resolved<RopeAppend> rope_append_;
  const WeightVector* q_norm_ = nullptr;             ///< [head_dim] or null
  const WeightVector* k_norm_ = nullptr;             ///< [head_dim] or null
  const WeightVector* sinks_ = nullptr;              ///< [q_heads] or null
  const WeightVector* inverse_frequency_ = nullptr;  ///< [n_rot / 2]; null without rotation
  const IntegerVector* axes_ = nullptr;              ///< [n_rot / 2]; null where tokens have one position
  StepAttention attention_;
  Resolved<OutputGate> output_gate_;  ///< without a kernel if there are no gates
  ResidualOutput output_;
  Selection q_heads_;  ///< of this rank
  Selection kv_heads_;
  /// Places in a row of Buffers::projected: the queries, keys and values of this rank's heads, and all keys that are there.
  /// A norm over all heads (QkNorm::vectors) needs those of all ranks.
  std::int64_t q_at_ = 0;
  std::int64_t k_at_ = 0;
  std::int64_t v_at_ = 0;
  std::int64_t all_k_at_ = 0;
  std::int64_t gate_at_ = 0;  ///< the gates of the output, if any
};

}  // namespace rocmforge
