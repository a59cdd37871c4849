#pragma once

// RMSNorm, rotation and quantisation of a token's heads before attention. A wave takes a head; each of its lanes takes units
// of two elements.

#include "kernels/rows/portable/rope_args.h"
#include "kernels/tile/device_code.h"
#include "kernels/tile/device_memory.h"
#include "kernels/tile/turn.h"
#include "ops/kv_layout.h"

namespace rocmforge::gpu {

/// A head of Q, K or V, and the steps that apply to it.
struct Head {
  const float* from;
  const float* norm;  ///< weights, null for none
  bool normed;
  int pairs;  ///< that turn
};

/// Head h of a token, whose heads of V follow those of K, and these Q's.
__device__ inline Head head_at(const RopeAppendArgs& args, std::int64_t token, int h) {
  const int kv_head = h - args.q_heads;
  const std::int64_t row = token * args.stride;
  if (kv_head < 0) {
    return {args.q + row + std::int64_t{h} * args.head_dim, args.q_norm, args.q_norm != nullptr, args.pairs};
  }
  if (kv_head < args.kv_heads) {
    return {args.k + row + std::int64_t{kv_head} * args.head_dim, args.k_norm, args.k_norm != nullptr, args.pairs};
  }
  return {args.v + row + std::int64_t{kv_head - args.kv_heads} * args.head_dim, nullptr, args.value_norm != 0, 0};
}

/// What Q is multiplied by, last.
__device__ inline float query_factor(const RopeAppendArgs& args, std::int32_t position) {
  if (args.temperature_scale == 0.0f) {
    return 1.0f;
  }
  const int length = args.temperature_length;
  const int steps = length > 0 ? position / length : (position + 1) / -length;
  return 1.0f + args.temperature_scale * logf(static_cast<float>(1 + steps));
}

/// What is the same for all heads of a call.
struct TurnRules {
  int head_dim;
  int adjacent;
  int norm_after_turn;
  float norm_eps;
};
__device__ inline TurnRules turn_rules(const RopeAppendArgs& args) {
  return {args.head_dim, args.adjacent, args.norm_after_turn, args.norm_eps};
}

/// Unit u of a head is a pair that turns, or two neighbours that pass through. The second of a pass-through unit may lie
/// past the head's end.
struct Unit {
  int first;
  int second;
};

__device__ inline Unit unit_at(const TurnRules& rules, const Head& head, int u) {
  if (u >= head.pairs || rules.adjacent != 0) {
    return {2 * u, 2 * u + 1};
  }
  return {u, u + head.pairs};
}

__device__ inline int units_of(const TurnRules& rules) { return (rules.head_dim + 1) / 2; }

/// A unit's elements; the second is 0 where there is none.
struct UnitValues {
  float first;
  float second;
};

__device__ inline UnitValues load_unit(const TurnRules& rules, const Head& head, const Unit& unit) {
  return {head.from[unit.first], unit.second < rules.head_dim ? head.from[unit.second] : 0.0f};
}

/// `sum` and the squares of a unit: summed in the order of a lane's units, so that all kernels find the same norm.
__device__ inline float add_squares(float sum, const UnitValues& values) {
  return __builtin_fmaf(values.second, values.second, __builtin_fmaf(values.first, values.first, sum));
}
/// The norm's factor, of all lanes' sums of squares.
__device__ inline float norm_scale(const TurnRules& rules, float squares) {
  return 1.0f / sqrtf(wave_reduce<Sum>(squares) / static_cast<float>(rules.head_dim) + rules.norm_eps);
}

/// The weights of a unit's norm, 1 where there are none.
__device__ inline UnitValues load_weights(const TurnRules& rules, const Head& head, const Unit& unit) {
  if (head.norm == nullptr) {
    return {1.0f, 1.0f};
  }
  const auto norm = device_memory(head.norm);
  return {norm[unit.first], unit.second < rules.head_dim ? norm[unit.second] : 0.0f};
}

/// Unit u, normalised by scale * weights and turned: calls write(dim, value).
template <class Write>
__device__ inline void finish_unit(const TurnRules& rules, const Head& head, int u, UnitValues values, float scale,
                                   const UnitValues& weights, const Turn* turns, Write write) {
  const Unit unit = unit_at(rules, head, u);
  const auto normalise = [&] {
    values.first *= scale * weights.first;
    values.second *= scale * weights.second;
  };
  if (head.normed && rules.norm_after_turn == 0) {
    normalise();
  }
  if (u < head.pairs) {
    const Turn turn = turns[u];
    // Fused multiply-adds are written out, so that every kernel rounds the same product.
    values = {__builtin_fmaf(values.first, turn.cosine, -(values.second * turn.sine)),
              __builtin_fmaf(values.first, turn.sine, values.second * turn.cosine)};
  }
  if (head.normed && rules.norm_after_turn != 0) {  // a turn does not change the sum of squares
    normalise();
  }
  write(unit.first, values.first);
  if (unit.second < rules.head_dim) {
    write(unit.second, values.second);
  }
}

/// Calls write(dim, value) with each element of the head, normalised and turned. A lane's first units and their weights are
/// loaded together, before anything waits for one of them.
template <class Write>
__device__ inline void turn_head(const TurnRules& rules, const Head& head, const Turn* turns, Write write) {
  constexpr int kept = 4;
  const int units = units_of(rules);
  UnitValues values[kept];
  UnitValues weights[kept];
#pragma unroll
  for (int j = 0; j < kept; ++j) {
    if (const int u = lane_index() + j * wave_size; u < units) {
      const Unit unit = unit_at(rules, head, u);
      values[j] = load_unit(rules, head, unit);
      weights[j] = load_weights(rules, head, unit);
    }
  }
  float scale = 1.0f;
  if (head.normed) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kept; ++j) {
      if (lane_index() + j * wave_size < units) {
        sum = add_squares(sum, values[j]);
      }
    }
    for (int u = lane_index() + kept * wave_size; u < units; u += wave_size) {
      sum = add_squares(sum, load_unit(rules, head, unit_at(rules, head, u)));
    }
    scale = norm_scale(rules, sum);
  }
#pragma unroll
  for (int j = 0; j < kept; ++j) {
    if (const int u = lane_index() + j * wave_size; u < units) {
      finish_unit(rules, head, u, values[j], scale, weights[j], turns, write);
    }
  }
  for (int u = lane_index() + kept * wave_size; u < units; u += wave_size) {
    const Unit unit = unit_at(rules, head, u);
    finish_unit(rules, head, u, load_unit(rules, head, unit), scale, load_weights(rules, head, unit), turns, write);
  }
}

inline constexpr int quant_group = kv_quant_dims;

/// The quants of `head` [head_dim], as KvLayout says: calls put(dim, quant, scale), `scale` that of its quant_group.
template <class Put>
__device__ inline void quantise_head(const float* head, int head_dim, Put put) {
  for (int first = 0; first < head_dim; first += wave_size) {
    const int dim = first + lane_index();
    const bool inside = dim < head_dim;
    const float value = inside ? head[dim] : 0.0f;
    const half scale = from_float<half>(wave_reduce<Max, quant_group>(fabsf(value)) * (1.0f / 127.0f));
    const float unit = to_float(scale);
    const float quant = unit > 0.0f ? fminf(fmaxf(rintf(value / unit), -127.0f), 127.0f) : 0.0f;
    if (inside) {
      put(dim, static_cast<std::int8_t>(quant), scale);
    }
  }
}

}  // namespace rocmforge::gpu
