#pragma once

#include <cstddef>
#include <cstdint>

#include "models/parts/fused_linear.h"
#include "models/parts/head_matrix.h"
#include "models/parts/operation.h"
#include "ops/attention.h"

namespace rocmforge {

/// Latent attention in its decompressed form, for the sequences of a step that have several rows: K and V of the heads are
/// computed from the latent rows of all positions, and queries [p | s] attend to them. If K and V need too much memory, the
/// heads are computed in several passes.
class LatentPrefill {
 public:
  /// One pass: heads, sequences of so many keys, rows of the step.
  struct Pass {
    std::int64_t heads = 0;
    std::int64_t sequences = 0;
    std::int64_t keys = 0;
    std::int64_t tokens = 0;
  };

  Resolved<LatentExpand> expand;
  Resolved<Attention> attention;  ///< of all heads
  Resolved<CopyHeads> copy_pass;
  Resolved<CopyHeads> copy_kept;
  const HeadMatrix* keys = nullptr;
  const HeadMatrix* values = nullptr;
  std::size_t general_bytes = 0;  ///< of the scratch memory, for other kernels that run during the pass
  std::size_t pass_bytes = 0;     ///< after general_bytes

  /// Lays out the scratch memory for steps within `limits`: K and V of `expanded_bytes` at once, or of one head, and
  /// `absorbed_bytes` for the absorbed form. Returns its size in bytes.
  std::size_t lay_out(const AttentionLimits& limits, std::size_t expanded_bytes, std::size_t absorbed_bytes);

  /// Bytes of scratch memory of a pass; for several heads at most the sum for single heads.
  [[nodiscard]] std::size_t bytes_of(const Pass& pass) const;

  /// From queries [tokens, heads * head_dim], rows `q_stride` apart, to `out` [tokens, heads * value_dim]. In a step that
  /// also has single rows, which use the same buffers, results are kept until `finish` writes them to `out`.
  void run(const Step& step, const float* q, std::int64_t q_stride, float* out) const;
  void finish(const Step& step, float* out) const;

 private:
  /// Neighbouring sequences that one pass computes.
  struct Range {
    std::int32_t first_sequence = 0;
    std::int32_t sequences = 0;
    std::int64_t first_token = 0;
    std::int64_t tokens = 0;
    std::int32_t max_q_len = 0;
    std::int32_t max_kv_len = 0;
  };
  struct Places;

  template <class Body>
  void for_each_range(const Step& step, Body&& body) const;
  [[nodiscard]] Pass pass_of(const Step& step, const Range& range, std::int64_t heads) const;
  [[nodiscard]] float* kept(const Step& step) const;
  void attend(const Step& step, const Range& range, const float* q, std::int64_t q_stride, float* out) const;
  void run_pass(const Step& step, const Range& range, const Places& places, const Attention::Args& queries,
                std::int32_t first_head, std::int32_t heads) const;
};

}  // namespace rocmforge
