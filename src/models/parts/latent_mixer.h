#pragma once

#include <cstdint>
#include <optional>

#include "models/parts/block.h"
#include "models/parts/head_matrix.h"
#include "models/parts/residual_output.h"
#include "models/step/step_attention.h"

namespace rocmforge {

/// Multi-head latent attention. The cache holds [c | r] for each position, c = norm(Wc x), r rotated, for all heads.
/// In the absorbed form a head's query [p | s], s rotated, becomes [Wk p | s], which attends to these rows as keys, with c
/// as values; Wv maps the result to the head's output. Prompts may use the decompressed form (LatentPrefill). Queries are
/// products of x, or of a latent of their own: Wqb norm(Wqa x). A gate of each head, a product of x too, may multiply its
/// output.
class LatentMixer final : public Mixer {
 public:
  LatentMixer(Planner& planner, const ModelConfig& config, int index);
  [[nodiscard]] bool has_pages() const override { return true; }

 private:
  void plan_projections(Planner& planner, const ModelConfig& config, int index);
  void plan_attention(Planner& planner, const ModelConfig& config, int index);
  void add_operations();
  void append(const Step& step) const;
  void attend_prompts(const Step& step) const;
  void absorb_queries(const Step& step) const;
  void attend(const Step& step) const;
  void gather_values(const Step& step) const;
  void gate(const Step& step) const;

  /// Whether the absorbed form computes any row of the step.
  [[nodiscard]] bool is_absorbed(const Step& step) const { return !prefill_ || step.any_single; }
  [[nodiscard]] bool has_query_latent() const { return config_.latent.q_rank > 0; }
  [[nodiscard]] std::int64_t query_dim() const { return std::int64_t{config_.latent.plain_dim} + config_.rope.n_rot; }
  [[nodiscard]] std::int64_t query_width() const { return config_.q_heads * query_dim(); }
  /// Elements from one token's queries to the next's, in Buffers::projected.
  [[nodiscard]] std::int64_t query_stride() const { return has_query_latent() ? query_width() : input_.linear.width(); }

  AttentionConfig config_;              ///< with the heads of this rank
  Range heads_;                         ///< these
  FusedLinear input_;                   ///< queries or their latent, then [c | r], with the norm before them
  std::optional<FusedLinear> queries_;  ///< from their latent, with its norm
  const WeightVector* kv_norm_ = nullptr;
  const WeightVector* inverse_frequency_ = nullptr;  ///< null without rotation
  Resolved<LatentAppend> append_;
  const HeadMatrix* keys_ = nullptr;
  const HeadMatrix* values_ = nullptr;
  StepAttention attention_;
  std::optional<LatentPrefill> prefill_;  ///< for sequences with several rows; none: `attention_` computes them too
  std::optional<FusedLinear> gates_;      ///< of the heads, with the norm of x once more, or none
  Resolved<OutputGate> output_gate_;
  ResidualOutput output_;
};

}  // namespace rocmforge
