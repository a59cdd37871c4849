#pragma once

#include <cstdint>

#include "base/half.h"

namespace rocmforge::gpu {

struct ReductionArgs {
  const float* in;  ///< [groups, threads]
  float* out;       ///< [groups, threads, 6]: sum and maximum of the group, sum of the wave, maximum of 16 lanes, two shuffles
};

struct ConversionArgs {
  const float* in;      ///< [count]
  half* halves;         ///< [count], as all below
  bfloat16* bfloats;
  float* from_halves;
  float* from_bfloats;
  std::int32_t count;
};

struct StrayArgs {
  float* out;
  std::int64_t index;
};

struct ReverseArgs {
  const std::uint8_t* in;  ///< [count]
  std::uint8_t* out;       ///< [count]
  std::int32_t count;      ///< also the bytes of dynamic shared memory
};

struct CopyArgs {
  const std::uint8_t* in;  ///< [threads * 6]
  std::uint8_t* out;       ///< [threads * 6]
};

struct CounterArgs {
  std::uint32_t* counter;  ///< [1]
  std::uint32_t* order;    ///< [work-groups]
};

}  // namespace rocmforge::gpu
