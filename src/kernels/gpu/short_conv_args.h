#pragma once

#include <cstdint>

#include "ops/state_slots.h"

namespace rocmforge::gpu {

/// Grid: channels, rows.
struct ShortConvArgs {
  const float* x;                     ///< [tokens, 3, channels]: b, c, x
  const float* weight;                ///< [channels, taps]
  float* out;                         ///< [tokens, channels]
  std::byte* states;                  ///< [slots], f32 [taps - 1, channels] in each, `slot_stride` bytes apart
  const StateSlots* slots;            ///< [sequences]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  const std::int32_t* sequence_of;    ///< [tokens]
  std::int64_t tokens;
  std::int64_t channels;
  std::int64_t taps;
  std::int64_t slot_stride;
};

}  // namespace rocmforge::gpu
