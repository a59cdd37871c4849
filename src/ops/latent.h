#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/kv_layout.h"
#include "ops/packed_product.h"
#include "ops/registry.h"
#include "ops/rope.h"

namespace rocmforge {

// The operations of multi-head latent attention (DeepSeek-V2, 2024) beside Attention with a value_dim.

/// Appends each token's latent row to the pages and rotates its queries. A token's kv is [c | r]. The appended row is the
/// RMSNorm of c (value_dim elements), then r, rotated. The last n_rot elements of each query head are rotated in place; then
/// the whole head is multiplied like RopeAppend's Q.
struct LatentAppend {
  static constexpr std::string_view name = "latent_append";

  struct Spec {
    RopeKind kind = RopeKind::adjacent;
    std::int32_t q_heads = 0;
    std::int32_t q_dim = 0;  ///< elements of a query head
    std::int32_t n_rot = 0;  ///< even; the rest of a query head passes through
    float norm_eps = 1e-6f;
    float magnitude = 1.0f;               ///< YaRN's mscale
    float temperature_scale = 0.0f;       ///< as in RopeAppend
    std::int32_t temperature_length = 0;  ///< positions
    KvLayout layout;                      ///< a latent plane of one head: head_dim = value_dim + n_rot
  };

  struct Args {
    float* q = nullptr;  ///< [tokens, q_heads * q_dim], rows `q_stride` apart
    std::int64_t q_stride = 0;
    const float* kv = nullptr;  ///< [tokens, value_dim + n_rot], rows `kv_stride` apart
    std::int64_t kv_stride = 0;
    const float* norm = nullptr;               ///< [value_dim]
    const float* inverse_frequency = nullptr;  ///< [n_rot / 2]
    KvCacheView cache;
    RaggedBatch batch;
  };
};

std::string to_string(const LatentAppend::Spec& spec);

class HeadMatmulKernel;

/// A matrix W_h for each head: out[t, h] = [W_h x[t, h] | tail of x[t, h]], x[t, h] being k elements and then the tail's.
struct HeadMatmul {
  static constexpr std::string_view name = "head_matmul";
  using KernelInterface = HeadMatmulKernel;

  struct Spec {
    DType weight = DType::f32;
    std::int64_t heads = 0;
    std::int64_t n = 0;     ///< rows of a head's matrix
    std::int64_t k = 0;     ///< columns
    std::int64_t tail = 0;  ///< elements that are copied
  };

  struct Args {
    const float* x = nullptr;  ///< [tokens, heads * (k + tail)], rows `x_stride` apart
    std::int64_t x_stride = 0;
    std::int64_t tokens = 0;
    const void* weight = nullptr;  ///< what HeadMatmulKernel::pack wrote, or rows [n, k] of the file where packed_bytes is 0
    std::int64_t head_bytes = 0;   ///< from one head's matrix to the next
    float* out = nullptr;          ///< [tokens, heads * (n + tail)], dense, not x
    void* workspace = nullptr;     ///< at least workspace_bytes, 64-byte aligned
    /// When set, only the results of sequences with one row are wanted; those of others are undefined.
    const RaggedBatch* single_rows = nullptr;
  };
};

std::string to_string(const HeadMatmul::Spec& spec);

/// A token's result has the same bits in all calls on one side of few_tokens().
class HeadMatmulKernel : public PackedProduct<HeadMatmul> {
 public:
  /// Scratch memory that a call with that many tokens needs; none unless the kernel says otherwise.
  [[nodiscard]] virtual std::size_t workspace_bytes(const HeadMatmul::Spec& /*spec*/, std::int64_t /*tokens*/) const {
    return 0;
  }

  virtual void run(const HeadMatmul::Spec& spec, const HeadMatmul::Args& args, ExecutionContext& context) const = 0;
};

/// K and V of single heads, from the rows [c | r] of a latent plane: K_h = [Wk_h^T c | r] and V_h = Wv_h c, zeros up to K's
/// length. Attention over them is the decompressed form of latent attention.
struct LatentExpand {
  static constexpr std::string_view name = "latent_expand";

  struct Spec {
    std::int32_t plain_dim = 0;  ///< elements of K before the rotated ones
    std::int32_t value_dim = 0;  ///< of V, at most head_dim()
    DType key_weight = DType::f32;
    DType value_weight = DType::f32;
    DType out = DType::f16;  ///< f16 or bf16
    KvLayout layout;         ///< a latent plane of one head

    [[nodiscard]] std::int32_t rank() const { return layout.value_dim; }
    [[nodiscard]] std::int32_t n_rot() const { return layout.head_dim - layout.value_dim; }
    [[nodiscard]] std::int32_t head_dim() const { return plain_dim + n_rot(); }
    /// Of the matrices of `heads` heads as 16-bit numbers.
    [[nodiscard]] std::size_t workspace_bytes(std::int32_t heads) const {
      return static_cast<std::size_t>(std::int64_t{heads} * (plain_dim + value_dim) * rank()) * sizeof(std::uint16_t);
    }
  };

  struct Args {
    const void* key_weight = nullptr;    ///< of the first head: rows [rank, plain_dim] of the file
    std::int64_t key_head_bytes = 0;     ///< from one head's matrix to the next
    const void* value_weight = nullptr;  ///< rows [value_dim, rank]
    std::int64_t value_head_bytes = 0;
    std::int32_t heads = 0;
    KvCacheView cache;
    RaggedBatch batch;
    void* k = nullptr;  ///< [num_sequences, heads, max_kv_len, head_dim]; nothing is written after a sequence's end
    void* v = nullptr;
    void* workspace = nullptr;  ///< at least workspace_bytes, 256-byte aligned
  };
};

std::string to_string(const LatentExpand::Spec& spec);

/// Parts of heads from one array of rows to another: out[t, first_head + h, i] = x[t, h, i] for tokens [first_token,
/// first_token + tokens), the first out_dim elements of each head.
struct CopyHeads {
  static constexpr std::string_view name = "copy_heads";

  struct Spec {
    std::int32_t dim = 0;      ///< of a head of x
    std::int32_t out_dim = 0;  ///< at most dim
  };

  struct Args {
    const float* x = nullptr;  ///< [tokens, heads, dim]
    std::int32_t heads = 0;
    std::int64_t first_token = 0;
    std::int64_t tokens = 0;
    float* out = nullptr;  ///< [tokens, out_heads, out_dim]
    std::int32_t out_heads = 0;
    std::int32_t first_head = 0;
  };
};

std::string to_string(const CopyHeads::Spec& spec);

}  // namespace rocmforge
