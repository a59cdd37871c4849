// Matrix products of packed weights with many tokens: matmul_packed_FORMAT_large and _small. See matmul_packed.h.

#include "kernels/matmul/amd/matmul_packed.h"

using namespace rocmforge;
using rocmforge::gpu::MatmulTileArgs;

#if defined(__GFX9__)
constexpr gpu::MatmulTileShape large_tile = amd::cdna_matmul_tile;
constexpr int large_buffers = 1;
#else
constexpr gpu::MatmulTileShape large_tile = amd::rdna_matmul_tile;
constexpr int large_buffers = 2;
#endif
constexpr gpu::MatmulTileShape small_tile = gpu::small_matmul_tile;
constexpr int small_buffers = 2;

#define ROCMFORGE_MATMUL_TILE(format, size)                                                                      \
  ROCMFORGE_KERNEL __launch_bounds__(size##_tile.threads) matmul_packed_##format##_##size(MatmulTileArgs args) { \
    amd::packed_tile<amd::WeightFormat::format, size##_tile, size##_buffers>(args);                              \
  }
#define ROCMFORGE_MATMUL_TILES(format) \
  ROCMFORGE_MATMUL_TILE(format, large) \
  ROCMFORGE_MATMUL_TILE(format, small)

ROCMFORGE_AMD_FORMATS(ROCMFORGE_MATMUL_TILES)
