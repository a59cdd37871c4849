#pragma once

#include <cstdint>
#include <string>

#include "ops/kv_layout.h"
#include "ops/registry.h"

namespace rocmforge {

class AttentionBackend;

/// Causal attention of a ragged batch over the paged KV cache: out = softmax(scale * q k^T) v per head, query head h reading
/// KV head h / (q_heads / kv_heads). The query at position q sees keys at positions q - window < k <= q.
struct Attention {
  static constexpr std::string_view name = "attention";
  using KernelInterface = AttentionBackend;

  struct Spec {
    std::int32_t q_heads = 0;
    std::int32_t kv_heads = 0;
    std::int32_t head_dim = 0;
    DType kv_dtype = DType::f16;
    float scale = 0.0f;       ///< 0 means 1 / sqrt(head_dim)
    std::int32_t window = 0;  ///< sliding window in tokens, 0 for none
    float soft_cap = 0.0f;    ///< scores become c * tanh(score / c) before the mask; 0 for none
    bool sinks = false;       ///< one extra logit per query head joins the denominator
  };

  struct Args {
    const float* q = nullptr;  ///< [tokens, q_heads * head_dim], rows `q_stride` apart
    std::int64_t q_stride = 0;
    KvCacheView cache;
    RaggedBatch batch;
    const float* sinks = nullptr;  ///< [q_heads] when Spec::sinks
    float* out = nullptr;          ///< [tokens, q_heads * head_dim], dense
    void* workspace = nullptr;     ///< at least workspace_bytes, 64-byte aligned
  };
};

std::string to_string(const Attention::Spec& spec);

/// A token's output is the same bits whatever else is in the batch and however its sequence was cut into steps.
/// A fully masked row gives zeros.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual DeviceKind device() const = 0;
  [[nodiscard]] virtual int priority() const = 0;
  [[nodiscard]] virtual Support supports(const Attention::Spec& spec, const DeviceInfo& device) const = 0;

  /// The cache layout this backend reads; `block_tokens` is its default and may be replaced by another power of two >= 16.
  [[nodiscard]] virtual KvLayout layout(const Attention::Spec& spec) const = 0;

  /// Scratch memory for a batch of at most `max_tokens` query rows on `num_threads` threads.
  [[nodiscard]] virtual std::size_t workspace_bytes(const Attention::Spec& spec, std::int64_t max_tokens,
                                                    int num_threads) const = 0;

  virtual void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
                   ExecutionContext& context) const = 0;
};

}  // namespace rocmforge
