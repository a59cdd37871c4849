#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/state_slots.h"

namespace rocmforge::gpu {

inline constexpr int selective_scan_threads = 128;  ///< each has one channel

/// Grid: channels in runs of selective_scan_threads, sequences.
struct SelectiveScanArgs {
  const float* x;                     ///< [tokens, channels]
  const float* z;                     ///< [tokens, channels], rows `stride` apart
  const float* dt;                    ///< likewise
  const float* b;                     ///< [tokens, state_size], rows `bc_stride` apart
  const float* c;                     ///< likewise
  const float* a;                     ///< [channels, state_size]
  const float* d;                     ///< [channels]
  float* out;                         ///< [tokens, channels]
  std::byte* states;                  ///< [slots], f32 [channels, state_size] in each, `slot_stride` bytes apart
  const StateSlots* slots;            ///< [sequences]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  std::int64_t stride;
  std::int64_t bc_stride;
  std::int64_t slot_stride;
  std::int32_t channels;
  std::int32_t state_size;
};

}  // namespace rocmforge::gpu
