// RMSNorm of heads, rotation, and the append of K and V to the cache's pages, in one launch: a wave for each head of Q, K
// and V of a token.

#include "kernels/gpu/device_code.h"
#include "kernels/gpu/rope_args.h"
#include "kernels/gpu/turn.h"

namespace rocmforge::gpu {
namespace {

/// What becomes of one head.
struct Head {
  const float* from;
  const float* norm;  ///< weights, null for none
  bool normed;
  int pairs;  ///< that turn

  __device__ float weight(int dim) const { return norm != nullptr ? norm[dim] : 1.0f; }
};

/// Unit u of a head is a pair that turns, or two neighbours that pass through. The second of a pass-through unit may lie
/// past the head's end.
struct Unit {
  int first;
  int second;
};

__device__ Unit unit_at(const RopeAppendArgs& args, const Head& head, int u) {
  if (u >= head.pairs || args.adjacent != 0) {
    return {2 * u, 2 * u + 1};
  }
  return {u, u + head.pairs};
}

/// Calls write(dim, value) with each element of the head, normalised and turned.
template <class Write>
__device__ void turn_head(const RopeAppendArgs& args, const Head& head, const Turn* turns, Write write) {
  const int units = (args.head_dim + 1) / 2;
  float scale = 1.0f;
  if (head.normed) {
    float sum = 0.0f;
    for (int dim = lane_index(); dim < args.head_dim; dim += wave_size) {
      sum += head.from[dim] * head.from[dim];
    }
    scale = 1.0f / sqrtf(wave_reduce<Sum>(sum) / static_cast<float>(args.head_dim) + args.norm_eps);
    sync_wave();  // Q is written in place, and units are spread over other lanes than single elements
  }
  for (int u = lane_index(); u < units; u += wave_size) {
    const Unit unit = unit_at(args, head, u);
    const bool both = unit.second < args.head_dim;
    const int second_at = both ? unit.second : unit.first;
    float first = head.from[unit.first];
    float second = head.from[second_at];
    if (head.normed && args.norm_after_turn == 0) {
      first *= scale * head.weight(unit.first);
      second *= scale * head.weight(second_at);
    }
    if (u < head.pairs) {
      const Turn turn = turns[u];
      const float turned = first * turn.cosine - second * turn.sine;
      second = first * turn.sine + second * turn.cosine;
      first = turned;
    }
    if (head.normed && args.norm_after_turn != 0) {  // a turn leaves the sum of squares
      first *= scale * head.weight(unit.first);
      second *= scale * head.weight(second_at);
    }
    write(unit.first, first);
    if (both) {
      write(unit.second, second);
    }
  }
}

/// An element of a q8_0 cache, whose strides are in bytes.
struct Quant {
  std::int8_t value;
};

/// `head` [head_dim] becomes the quants of position `slot` at `to`, a head of a block, and their scales; see KvLayout.
__device__ void append_quants(const RopeAppendArgs& args, const float* head, Quant* to, int slot, bool by_dim) {
  constexpr int group = 32;
  const int block_tokens = 1 << args.block_shift;
  const int groups = args.head_dim / group;
  half* const scales = reinterpret_cast<half*>(to + std::int64_t{block_tokens} * args.head_dim);
  for (int first = 0; first < args.head_dim; first += wave_size) {
    const int dim = first + lane_index();
    const bool inside = dim < args.head_dim;
    const float value = inside ? head[dim] : 0.0f;
    const half scale = from_float<half>(wave_reduce<Max, group>(fabsf(value)) * (1.0f / 127.0f));
    const float unit = to_float(scale);
    const float quant = unit > 0.0f ? fminf(fmaxf(rintf(value / unit), -127.0f), 127.0f) : 0.0f;
    if (inside) {
      to[by_dim ? dim * block_tokens + slot : slot * args.head_dim + dim].value = static_cast<std::int8_t>(quant);
    }
    if (inside && dim % group == 0) {
      scales[by_dim ? dim / group * block_tokens + slot : slot * groups + dim / group] = scale;
    }
  }
}

template <class T>
inline constexpr bool is_quant = false;
template <>
inline constexpr bool is_quant<Quant> = true;

/// `staged` [waves, head_dim]: shared memory for quants' heads.
template <class T>
__device__ void process_heads(const RopeAppendArgs& args, std::int64_t token, const Turn* turns, float* staged) {
  const std::int32_t position = args.positions[token];
  const std::int64_t entry = std::int64_t{args.sequence_of[token]} * args.max_blocks + (position >> args.block_shift);
  T* block = static_cast<T*>(args.cache) + args.block_tables[entry] * args.block_elems;
  const std::int32_t block_tokens = 1 << args.block_shift;
  const std::int32_t slot = position & (block_tokens - 1);
  const float q_factor =
      args.temperature_scale != 0.0f
          ? 1.0f + args.temperature_scale * logf(static_cast<float>(1 + position / args.temperature_length))
          : 1.0f;
  const int waves = static_cast<int>(blockDim.x) / wave_size;
  const int heads = args.q_heads + 2 * args.kv_heads;
  for (int h = static_cast<int>(blockIdx.y) * waves + wave_index(); h < heads; h += static_cast<int>(gridDim.y) * waves) {
    const int kv_head = h - args.q_heads;  // V's follow K's, in the cache too
    const bool is_query = kv_head < 0;
    const bool is_value = kv_head >= args.kv_heads;
    float* q = args.q + token * args.stride + std::int64_t{h} * args.head_dim;
    Head head{q, args.q_norm, args.q_norm != nullptr, args.pairs};
    T* to = block;
    if (!is_query) {
      to += kv_head * args.head_elems;
      const int own_head = is_value ? kv_head - args.kv_heads : kv_head;
      head.from = (is_value ? args.v : args.k) + token * args.stride + std::int64_t{own_head} * args.head_dim;
      head.norm = is_value ? nullptr : args.k_norm;
      head.normed = is_value ? args.value_norm != 0 : args.k_norm != nullptr;
      head.pairs = is_value ? 0 : args.pairs;
    }
    const bool by_dim = (is_value ? args.v_by_dim : args.k_by_dim) != 0;
    if constexpr (is_quant<T>) {
      if (is_query) {
        turn_head(args, head, turns, [&](int dim, float value) { q[dim] = value * q_factor; });
      } else {
        float* const own = staged + wave_index() * args.head_dim;
        turn_head(args, head, turns, [&](int dim, float value) { own[dim] = value; });
        sync_wave();
        append_quants(args, own, to, slot, by_dim);
        sync_wave();  // the next head takes its place
      }
    } else {
      const int dim_stride = by_dim ? block_tokens : 1;
      to += by_dim ? slot : slot * args.head_dim;
      turn_head(args, head, turns, [&](int dim, float value) {
        if (is_query) {
          q[dim] = value * q_factor;
        } else {
          to[std::int64_t{dim} * dim_stride] = from_float<T>(value);
        }
      });
    }
  }
}

template <class T>
__device__ void rope_append(const RopeAppendArgs& args, Turn* turns) {
  release_successor();
  const std::int64_t token = blockIdx.x;
  if (args.kv_lengths[args.sequence_of[token]] == 0) {
    wait_for_predecessor();
    return;  // padding; the whole work-group sees the same
  }
  const auto position = static_cast<float>(args.positions[token]);
  for (int p = thread_index(); p < args.pairs; p += static_cast<int>(blockDim.x)) {
    turns[p] = turn_of(position, args.inverse_frequency[p], args.magnitude);
  }
  __syncthreads();
  wait_for_predecessor();  // positions and tables are the step's inputs
  process_heads<T>(args, token, turns, reinterpret_cast<float*>(turns + args.pairs));
}

extern __shared__ Turn shared_turns[];  // [pairs], then for quants [waves, head_dim] floats

}  // namespace

// By the type of the cache.
ROCMFORGE_KERNEL rope_append_f32(RopeAppendArgs args) { rope_append<float>(args, shared_turns); }
ROCMFORGE_KERNEL rope_append_f16(RopeAppendArgs args) { rope_append<half>(args, shared_turns); }
ROCMFORGE_KERNEL rope_append_bf16(RopeAppendArgs args) { rope_append<bfloat16>(args, shared_turns); }
ROCMFORGE_KERNEL rope_append_q8_0(RopeAppendArgs args) { rope_append<Quant>(args, shared_turns); }

}  // namespace rocmforge::gpu
