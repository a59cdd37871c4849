// RMSNorm of heads, rotation, and the append of K and V to the cache's pages, in one launch: a wave for each head of Q, K
// and V of a token.

#include "kernels/formats/portable/store_coded.h"
#include "kernels/rows/portable/turn_heads.h"
#include "kernels/tile/hadamard.h"

namespace rocmforge::gpu {
namespace {

/// An element of a q8_0 cache, whose strides are in bytes.
struct Quant {
  std::int8_t value;
};

/// `head` [head_dim] becomes the quants of position `slot` at `to`, a head of a block, and their scales; see KvLayout.
__device__ void append_quants(const RopeAppendArgs& args, const float* head, Quant* to, int slot, bool by_dim) {
  const int block_tokens = 1 << args.block_shift;
  const int groups = args.head_dim / quant_group;
  half* const scales = reinterpret_cast<half*>(to + std::int64_t{block_tokens} * args.head_dim);
  quantise_head(head, args.head_dim, [&](int dim, std::int8_t quant, half scale) {
    to[by_dim ? dim * block_tokens + slot : slot * args.head_dim + dim].value = quant;
    if (dim % quant_group == 0) {
      scales[by_dim ? dim / quant_group * block_tokens + slot : slot * groups + dim / quant_group] = scale;
    }
  });
}

template <class T>
inline constexpr bool is_quant = false;
template <>
inline constexpr bool is_quant<Quant> = true;

/// Where a token's K and V go; offsets, positions and tables are the step's inputs, which no kernel writes.
template <class T>
struct TokenPlace {
  const std::int32_t* positions;  ///< on each axis
  std::int32_t slot;              ///< in the block
  T* block;

  __device__ TokenPlace(const RopeAppendArgs& args, std::int64_t token, std::int32_t sequence, std::int32_t kv_len)
      : positions(args.positions + token * args.position_axes) {
    const std::int32_t cell = kv_len - args.query_offsets[sequence + 1] + static_cast<std::int32_t>(token);
    slot = cell & ((1 << args.block_shift) - 1);
    const std::int64_t entry = std::int64_t{sequence} * args.max_blocks + (cell >> args.block_shift);
    block = static_cast<T*>(args.cache) + args.block_tables[entry] * args.block_elems;
  }
};

/// `staged` [waves, head_dim]: shared memory for quants' heads.
template <class T>
__device__ void process_heads(const RopeAppendArgs& args, std::int64_t token, const TokenPlace<T>& place, const Turn* turns,
                              float* staged) {
  const std::int32_t block_tokens = 1 << args.block_shift;
  const TurnRules rules = turn_rules(args);
  const float q_factor = query_factor(args, place.positions[0]);
  const int waves = static_cast<int>(blockDim.x) / wave_size;
  const int heads = args.q_heads + 2 * args.kv_heads;
  for (int h = static_cast<int>(blockIdx.y) * waves + wave_index(); h < heads; h += static_cast<int>(gridDim.y) * waves) {
    const int kv_head = h - args.q_heads;  // V's follow K's, in the cache too
    const bool is_query = kv_head < 0;
    const bool is_value = kv_head >= args.kv_heads;
    const Head head = head_at(args, token, h);
    float* const q = args.q + token * args.stride + std::int64_t{h} * args.head_dim;
    T* to = is_query ? place.block : place.block + kv_head * args.head_elems;
    const bool by_dim = (is_value ? args.v_by_dim : args.k_by_dim) != 0;
    if constexpr (is_quant<T>) {
      if (is_query) {
        turn_head(rules, head, turns, [&](int dim, float value) { q[dim] = value * q_factor; });
      } else {
        float* const own = staged + wave_index() * args.head_dim;
        turn_head(rules, head, turns, [&](int dim, float value) { own[dim] = value; });
        sync_wave();
        append_quants(args, own, to, place.slot, by_dim);
        sync_wave();  // the next head takes its place
      }
    } else {
      const int dim_stride = by_dim ? block_tokens : 1;
      to += by_dim ? place.slot : place.slot * args.head_dim;
      turn_head(rules, head, turns, [&](int dim, float value) {
        if (is_query) {
          q[dim] = value * q_factor;
        } else {
          to[std::int64_t{dim} * dim_stride] = from_float<T>(value);
        }
      });
    }
  }
}

/// Pages of any type; `own` [head_dim] is the wave's shared memory.
__device__ void process_coded_heads(const RopeAppendCodedArgs& all, std::int64_t token,
                                    const TokenPlace<std::uint8_t>& place, const Turn* turns, float* own) {
  const RopeAppendArgs& args = all.rope;
  const TurnRules rules = turn_rules(args);
  const float q_factor = query_factor(args, place.positions[0]);
  const int waves = static_cast<int>(blockDim.x) / wave_size;
  const int heads = args.q_heads + 2 * args.kv_heads;
  for (int h = static_cast<int>(blockIdx.y) * waves + wave_index(); h < heads; h += static_cast<int>(gridDim.y) * waves) {
    const int kv_head = h - args.q_heads;
    const bool is_value = kv_head >= args.kv_heads;
    const CodedPlane plane = is_value ? all.pages.v : all.pages.k;
    turn_head(rules, head_at(args, token, h), turns, [&](int dim, float value) { own[dim] = value; });
    sync_wave();
    if (plane.rotated != 0) {
      turn_by_hadamard(own, args.head_dim, all.block, all.factor);
    }
    if (kv_head < 0) {
      float* const q = args.q + token * args.stride + std::int64_t{h} * args.head_dim;
      for (int dim = lane_index(); dim < args.head_dim; dim += wave_size) {
        q[dim] = own[dim] * q_factor;
      }
    } else {
      const int plane_head = is_value ? kv_head - args.kv_heads : kv_head;
      std::uint8_t* const to = place.block + plane.first + std::int64_t{plane_head} * plane.head_bytes;
      store_coded(own, args.head_dim, plane.type, {to, place.slot, 1 << args.block_shift, plane.by_dim != 0});
    }
    sync_wave();  // the next head takes its place
  }
}

/// Calls process(token, place) with what is the same for all heads of a token.
template <class T, class Process>
__device__ void for_token(const RopeAppendArgs& args, Turn* turns, Process process) {
  release_successor();
  const std::int64_t token = blockIdx.x;
  const std::int32_t sequence = args.sequence_of[token];
  const std::int32_t kv_len = args.kv_lengths[sequence];
  if (kv_len == 0) {
    wait_for_predecessor();
    return;  // padding; the whole work-group sees the same
  }
  const TokenPlace<T> place(args, token, sequence, kv_len);
  for (int p = thread_index(); p < args.pairs; p += static_cast<int>(blockDim.x)) {
    const auto position = static_cast<float>(place.positions[args.axes != nullptr ? args.axes[p] : 0]);
    turns[p] = turn_of(position, args.inverse_frequency[p], args.magnitude);
  }
  __syncthreads();
  wait_for_predecessor();
  process(token, place);
}

template <class T>
__device__ void rope_append(const RopeAppendArgs& args, Turn* turns) {
  for_token<T>(args, turns, [&](std::int64_t token, const TokenPlace<T>& place) {
    process_heads<T>(args, token, place, turns, floats_behind(turns, args.pairs));
  });
}

extern __shared__ Turn shared_turns[];  // turn_shared_bytes(): a row of head_dim for each wave where heads are quantised

}  // namespace

// By the type of the cache.
ROCMFORGE_KERNEL rope_append_f32(RopeAppendArgs args) { rope_append<float>(args, shared_turns); }
ROCMFORGE_KERNEL rope_append_f16(RopeAppendArgs args) { rope_append<half>(args, shared_turns); }
ROCMFORGE_KERNEL rope_append_bf16(RopeAppendArgs args) { rope_append<bfloat16>(args, shared_turns); }
ROCMFORGE_KERNEL rope_append_q8_0(RopeAppendArgs args) { rope_append<Quant>(args, shared_turns); }
ROCMFORGE_KERNEL rope_append_coded(RopeAppendCodedArgs args) {
  float* const own = floats_behind(shared_turns, args.rope.pairs) + wave_index() * args.rope.head_dim;
  for_token<std::uint8_t>(args.rope, shared_turns, [&](std::int64_t token, const TokenPlace<std::uint8_t>& place) {
    process_coded_heads(args, token, place, shared_turns, own);
  });
}

}  // namespace rocmforge::gpu
