#pragma once

// What the attention kernels share: where K and V lie, which keys a row sees, scores and the running softmax.

#include "base/math.h"
#include "kernels/attention/portable/attention_args.h"
#include "kernels/tile/device_code.h"
#include "ops/kv_layout.h"

namespace rocmforge::gpu {

/// A sequence's query rows and keys.
struct SequenceRange {
  int first_row;  ///< among the tokens
  int q_len;
  int kv_len;
};

/// Sequence `s`, with q_len 0 when this call leaves it alone.
__device__ inline SequenceRange sequence_range(const AttentionArgs& args, int s) {
  const int first = args.query_offsets[s];
  const int q_len = args.query_offsets[s + 1] - first;
  const bool computed = args.rows == 0 || (args.rows == 1) == (q_len == 1);
  return {first, computed ? q_len : 0, args.kv_lengths[s]};
}

/// What the rows of a call see: up to themselves, or up to an end of their own.
struct OwnEnds {};
struct SpanEnds {
  const std::int32_t* visible_end;  ///< [tokens]
};
template <class Ends>
inline constexpr bool has_spans = false;
template <>
inline constexpr bool has_spans<SpanEnds> = true;

/// Either, as the call says.
struct MaybeEnds {
  const std::int32_t* visible_end;  ///< [tokens] or null
};

template <class Ends>
inline constexpr bool may_have_spans = false;
template <>
inline constexpr bool may_have_spans<MaybeEnds> = true;

/// The keys [begin, end) that a row sees. Neither end is lower for a later row.
struct KeyRange {
  int begin;
  int end;
};

/// Those of a row at `position` where a window is none of chunks; empty for a causal row before the first key.
__device__ inline KeyRange keys_in_window(const AttentionArgs& args, int position, int kv_len) {
  const int ahead = args.causal ? 1 : args.window;  // 0: all keys
  const int end = ahead > 0 ? min(max(position + ahead, 0), kv_len) : kv_len;
  const int begin = args.window > 0 ? max(position - args.window + 1, 0) : 0;
  return {begin, end};
}

/// Those of any row at `position`.
__device__ inline KeyRange visible_keys(const AttentionArgs& args, int position, int kv_len) {
  KeyRange keys = keys_in_window(args, position, kv_len);
  if (args.window < 0) {  // a chunk is a power of two: its start is the position without its lower bits
    keys.begin = max(position, 0) & args.window;
  }
  return keys;
}

/// The same of the row that is token `token` of the step, which may see further than itself.
template <class Ends>
__device__ inline KeyRange visible_keys(const AttentionArgs& args, [[maybe_unused]] Ends ends, [[maybe_unused]] int token,
                                        int position, int kv_len) {
  KeyRange keys = visible_keys(args, position, kv_len);
  if constexpr (has_spans<Ends>) {
    keys.end = ends.visible_end[token];
  } else if constexpr (may_have_spans<Ends>) {
    keys.end = ends.visible_end != nullptr ? ends.visible_end[token] : keys.end;
  }
  return keys;
}

/// Elements from the start of K or V to position `key` of sequence `s`, KV head 0.
__device__ inline std::int64_t kv_row(const KvAddress& kv, int s, int key) {
  if (kv.block_tables == nullptr) {
    return s * kv.sequence_stride + key * kv.token_stride;
  }
  const std::int64_t block = kv.block_tables[std::int64_t{s} * kv.max_blocks + (key >> kv.block_shift)];
  return block * kv.block_stride + (key & ((1 << kv.block_shift) - 1)) * kv.token_stride;
}

/// An element of a q8_0 cache.
struct Quant {
  std::int8_t value;
};

/// The scale of dimension `dim` at position `key` of sequence `s`; `k_or_v` is KV head 0's of the first block.
__device__ inline float kv_scale(const KvAddress& kv, const void* k_or_v, int s, int key, int kv_head, int dim) {
  constexpr int group = kv_quant_dims;
  const std::int64_t block = kv.block_tables[std::int64_t{s} * kv.max_blocks + (key >> kv.block_shift)];
  const char* scales =
      static_cast<const char*>(k_or_v) + block * kv.block_stride + kv_head * kv.head_stride + kv.quant_bytes;
  const int slot = key & ((1 << kv.block_shift) - 1);
  const int groups = static_cast<int>(kv.token_stride) / group;
  return to_float(reinterpret_cast<const half*>(scales)[slot * groups + dim / group]);
}

__device__ inline float reciprocal_fast(float x) {
#if ROCMFORGE_DEVICE_AMD
  return __builtin_amdgcn_rcpf(x);
#else
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

/// The absolute error is at most 2^-22.
__device__ inline float tanh_fast(float x) { return 1.0f - 2.0f * reciprocal_fast(exp2_fast(2.0f * log2_e * x) + 1.0f); }

/// A dot product as a score in units of log2, capped.
__device__ inline float score_log2(const AttentionArgs& args, float dot) {
  return args.soft_cap_scale > 0.0f ? args.soft_cap_log2 * tanh_fast(dot * args.soft_cap_scale) : dot * args.scale_log2;
}

/// The maximum to subtract: 0 for a row that has seen no visible key, whose maximum is -infinity.
__device__ inline float finite_maximum(float maximum) { return maximum == -infinity ? 0.0f : maximum; }

__device__ inline float load_io(const void* data, DType dtype, std::int64_t index) {
  switch (dtype) {
    case DType::f16:
      return to_float(static_cast<const half*>(data)[index]);
    case DType::bf16:
      return to_float(static_cast<const bfloat16*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

__device__ inline void store_io(void* data, DType dtype, std::int64_t index, float value) {
  switch (dtype) {
    case DType::f16:
      static_cast<half*>(data)[index] = from_float<half>(value);
      break;
    case DType::bf16:
      static_cast<bfloat16*>(data)[index] = from_float<bfloat16>(value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
      break;
  }
}

/// Sixteen bytes.
struct alignas(16) Bytes16 {
#if ROCMFORGE_DEVICE_AMD
  using Words = std::uint32_t __attribute__((ext_vector_type(4)));
  Words words;  // an array would be kept in scratch memory
#else
  std::uint32_t words[4];
#endif
};

}  // namespace rocmforge::gpu
