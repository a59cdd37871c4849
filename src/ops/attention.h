#pragma once

#include <cstdint>
#include <string>

#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "ops/rope.h"
#include "ops/score_shape.h"

namespace rocmforge {

class AttentionBackend;

/// Attention of a ragged batch over the paged KV cache: out = softmax(scale * q k^T + mask) v per head, query head h reading
/// KV head h / (q_heads / kv_heads). With a value_dim, V is the first value_dim elements of K. Multi-head latent attention
/// in its absorbed form (DeepSeek-V2 2024) uses this with one KV head: [latent | rotated elements]. The query at position q
/// sees keys at positions q - window < k <= q, with `spans` q - window < k < visible_end; without `causal` all keys of its
/// sequence, or those at q - window < k < q + window. With `chunked` positions are in chunks of `window`, and a query sees
/// those of its own: window * floor(q / window) <= k (Llama 4). Positions are those in the cache, its cells.
struct Attention {
  static constexpr std::string_view name = "attention";
  using KernelInterface = AttentionBackend;

  struct Spec {
    std::int32_t q_heads = 0;
    std::int32_t kv_heads = 0;
    std::int32_t head_dim = 0;
    KvTypes kv_dtype = DType::f16;
    DType io_dtype = DType::f32;  ///< of q and out
    float scale = 0.0f;           ///< 0 means 1 / sqrt(head_dim)
    std::int32_t window = 0;      ///< sliding window in tokens, 0 for none
    bool chunked = false;         ///< the window is a chunk, a power of two; causal only
    float soft_cap = 0.0f;        ///< scores become c * tanh(score / c) before the mask; 0 for none
    bool sinks = false;           ///< one extra logit per query head joins the denominator
    bool causal = true;
    bool spans = false;  ///< rows may see further than themselves: the batch has a visible_end
    bool mask = false;   ///< Args::mask is added to the scores
    /// Query rows of a sequence that is computed, at most: 1 (decode steps), 2, 4 or 8 (drafts to verify); 0: any number.
    std::int32_t most_rows = 0;
    std::int32_t value_dim = 0;  ///< KvLayout::value_dim; 0: V has head_dim elements of its own

    [[nodiscard]] bool has_single_rows() const { return most_rows == 1; }
    /// Elements of a head of `out`.
    [[nodiscard]] std::int32_t out_dim() const { return value_dim > 0 ? value_dim : head_dim; }
  };

  /// A RopeAppend that runs before attention in the same call (AttentionBackend::takes): the same q, pages and batch, whose
  /// sequences have one row each. The contents of q afterwards are undefined.
  struct Append {
    RopeAppend::Spec spec;
    RopeAppend::Args args;
  };

  using Rows = SequenceRows;  ///< rows of sequences that a call does not compute are not written

  struct Args {
    const void* q = nullptr;  ///< [tokens, q_heads * head_dim] of Spec::io_dtype, rows `q_stride` elements apart
    std::int64_t q_stride = 0;
    KvCacheView cache{};
    DenseKv dense{};  ///< used in place of the cache when dense.k is set
    RaggedBatch batch{};
    const float* sinks = nullptr;    ///< [q_heads] when Spec::sinks
    const float* mask = nullptr;     ///< [tokens, mask_stride] when Spec::mask: added to the scores of all heads, -inf masks
    std::int64_t mask_stride = 0;    ///< elements, at least every KV length
    void* out = nullptr;             ///< [tokens, q_heads * out_dim()] of Spec::io_dtype, dense
    const Append* append = nullptr;  ///< run first, in the same call
    Rows rows = Rows::all;
    void* workspace = nullptr;  ///< at least workspace_bytes, 256-byte aligned
    void* state = nullptr;      ///< state_bytes, zero at first, written only by this backend's calls
  };
};

/// The largest step that a backend gets.
struct AttentionLimits {
  std::int64_t max_tokens = 0;
  std::int64_t max_sequences = 0;
  std::int64_t max_kv_len = 0;
  int num_threads = 1;  ///< CPU
};

std::string to_string(const Attention::Spec& spec);

/// The kernels of a step's two phases share a layout, which may have another block size than the kernel's own choice.
template <>
struct KernelUse<Attention> {
  Attention::Spec spec;
  const AttentionBackend* kernel = nullptr;
  KvLayout layout{};
};

/// A token's output has the same bits whatever else is in the batch and however its sequence was split into steps. A fully
/// masked row gives zeros.
class AttentionBackend : public RegisteredKernel<Attention> {
 public:
  /// The cache layout this backend reads; `block_tokens` is its default and may be replaced by another power of two >= 16.
  [[nodiscard]] virtual KvLayout layout(const Attention::Spec& spec) const = 0;

  /// Scratch memory for any step within the limits.
  [[nodiscard]] virtual std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const = 0;
  /// Memory for counters whose values a call restores; 0 for none.
  [[nodiscard]] virtual std::size_t state_bytes(const Attention::Spec&, const AttentionLimits&) const { return 0; }

  /// Whether a call with `spec` may begin with RopeAppend (Args::append). Its results have the same bits as two calls'.
  [[nodiscard]] virtual bool takes(const Attention::Spec&, const RopeAppend::Spec&) const { return false; }

  virtual void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
                   ExecutionContext& context) const = 0;
};

}  // namespace rocmforge
