#pragma once

#include <cstdint>

#include "ops/state_slots.h"

namespace rocmforge::gpu {

inline constexpr int ssm_scan_threads = 128;
inline constexpr int ssm_scan_lanes = 8;  ///< that share a row of the state
inline constexpr int ssm_scan_tile = 8;   ///< rows of the step that are staged together

/// Elements of the state that a thread keeps in registers, for states of up to `state_size`.
constexpr int ssm_scan_elems(int state_size) { return state_size / ssm_scan_lanes; }
/// Rows of the state that a thread has a part of.
constexpr int ssm_scan_rows(int state_size) { return state_size >= 256 ? 1 : state_size == 64 ? 4 : 2; }
/// Rows of the state in a work-group.
constexpr int ssm_scan_group_rows(int state_size) { return ssm_scan_threads / ssm_scan_lanes * ssm_scan_rows(state_size); }

/// Grid: rows of the states of all heads in runs of ssm_scan_group_rows, sequences.
struct SsmScanArgs {
  const float* x;           ///< [tokens, x_stride]: x [heads, head_dim], B and C [groups, state_size]
  const float* z;           ///< [tokens, inner], rows `stride` apart
  const float* dt;          ///< [tokens, heads], rows `stride` apart
  const float* a;           ///< [heads]
  const float* d;           ///< [heads]
  const float* dt_bias;     ///< [heads]
  float* out;               ///< [tokens, inner]
  std::byte* states;        ///< [slots], f32 [heads, head_dim, state_size] in each, `slot_stride` bytes apart, in fours
  const StateSlots* slots;  ///< [sequences]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  std::int64_t x_stride;
  std::int64_t stride;
  std::int64_t slot_stride;
  std::int32_t heads;
  std::int32_t head_dim;
  std::int32_t state_size;
  std::int32_t groups;
  std::int32_t runs;  ///< of a head
};

}  // namespace rocmforge::gpu
