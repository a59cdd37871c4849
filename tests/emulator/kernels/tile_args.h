#pragma once

#include <cstdint>

namespace rocmforge::gpu {

struct TileArgs {
  const void* a;          ///< [16, k], half or bfloat16
  const void* b;          ///< b_source 0: [16 columns, k]; 1 and 2: [k, 16]
  float* c;               ///< [16, 16]
  std::int32_t k;         ///< a multiple of 16
  std::int32_t b_source;  ///< 0: load_b, 1: load_b_k, 2: load_b_k from shared memory
};

}  // namespace rocmforge::gpu
