#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// Reads `count` 16-byte words once; every work-group leaves one sum, so that no load can be left out.
struct CeilingReadArgs {
  const void* from;  ///< [count] of 16 bytes
  std::int64_t count;
  std::uint32_t* sums;  ///< [work-groups]
};

/// Each wave multiplies its two 16 x 16 tiles of random numbers `rounds` times into 8 independent sums.
struct CeilingMatrixArgs {
  const std::uint16_t* tiles;  ///< [waves of the grid, 2, 16, 16] as binary16
  std::int64_t rounds;
  float* sums;  ///< [threads of the grid]
};

}  // namespace rocmforge::gpu
