#pragma once

#include <cstdint>

#include "ops/state_slots.h"

namespace rocmforge::gpu {

/// Grid: channels, rows.
struct CausalConvArgs {
  const float* x;                     ///< [tokens, channels], or with gates [tokens, 3, channels]: b, c, x
  const float* weight;                ///< [channels, taps]
  const float* bias;                  ///< [channels] or null
  float* out;                         ///< [tokens, channels]
  std::byte* states;                  ///< [slots], f32 [taps - 1, channels] in each, `slot_stride` bytes apart
  const StateSlots* slots;            ///< [sequences]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  const std::int32_t* sequence_of;    ///< [tokens]
  std::int64_t tokens;
  std::int64_t channels;
  std::int64_t taps;
  std::int64_t x_stride;
  std::int64_t slot_stride;
  bool gates;
  bool silu;
};

}  // namespace rocmforge::gpu
