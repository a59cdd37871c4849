#pragma once

#include <cstdint>

#include "ops/delta_net.h"
#include "ops/output_gate.h"
#include "ops/state_slots.h"

namespace rocmforge::gpu {

inline constexpr int delta_net_threads = 256;
inline constexpr int delta_net_columns = 32;   ///< of a state, for one work-group
inline constexpr int delta_net_key_dim = 128;  ///< the most a work-group can hold

/// Grid: pieces of delta_net_columns of all value heads, sequences. key_dim is a multiple of 4.
struct DeltaNetArgs {
  const float* qkv;                   ///< [tokens, 2 keys + values], rows `qkv_stride` apart
  const float* beta;                  ///< [tokens, value_heads], rows `gate_stride` apart
  const float* alpha;                 ///< [tokens, value_heads], or [tokens, value_heads, key_dim], likewise
  const float* rate;                  ///< [value_heads]
  const float* step_bias;             ///< [value_heads], or [value_heads, key_dim]
  float* out;                         ///< [tokens, values], rows `out_stride` apart
  std::byte* states;                  ///< [slots], f32 [value_heads, value_dim, key_dim] in each, `slot_stride` bytes apart
  const StateSlots* slots;            ///< [sequences]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  std::int64_t qkv_stride;
  std::int64_t gate_stride;
  std::int64_t out_stride;
  std::int64_t slot_stride;
  std::int32_t sequences;
  std::int32_t key_heads;
  std::int32_t value_heads;
  std::int32_t key_dim;
  std::int32_t value_dim;
  float decay_floor;  ///< of decays of keys; 0: none
  bool tiled;
};

inline constexpr int output_gate_lanes = 32;  ///< for one head

/// Grid: heads, output_gate_lanes threads for each; tokens.
struct OutputGateArgs {
  const float* x;       ///< [tokens, heads, dim], rows `x_stride` apart
  const float* gate;    ///< [tokens, heads, dim] or [tokens, heads], rows `gate_stride` apart
  const float* weight;  ///< [dim] of the norm, or null
  float* out;           ///< [tokens, heads, dim]
  std::int64_t tokens;
  std::int64_t x_stride;
  std::int64_t gate_stride;
  std::int32_t heads;
  std::int32_t dim;
  float eps;
  OutputGate::Gate form;
  bool of_heads;  ///< one gate for each head
};

}  // namespace rocmforge::gpu
