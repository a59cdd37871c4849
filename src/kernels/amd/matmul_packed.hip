// Matrix products of packed weights with many tokens: matmul_packed_FORMAT_large and _small. See gpu/matmul.h.

#include "kernels/amd/matmul_packed.h"

using namespace rocmforge;
using rocmforge::gpu::MatmulTileArgs;

#define ROCMFORGE_MATMUL_TILE(format, size)                                                        \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::size##_matmul_tile.threads)                              \
      matmul_packed_##format##_##size(MatmulTileArgs args) {                                       \
    gpu::matmul_tile<amd::Packed<amd::WeightFormat::format>, half, gpu::size##_matmul_tile>(args); \
  }
#define ROCMFORGE_MATMUL_TILES(format) \
  ROCMFORGE_MATMUL_TILE(format, large) \
  ROCMFORGE_MATMUL_TILE(format, small)

ROCMFORGE_MATMUL_TILES(q4_0)
ROCMFORGE_MATMUL_TILES(q5_0)
ROCMFORGE_MATMUL_TILES(q8_0)
ROCMFORGE_MATMUL_TILES(mxfp4)
ROCMFORGE_MATMUL_TILES(q4_k)
ROCMFORGE_MATMUL_TILES(q5_k)
ROCMFORGE_MATMUL_TILES(q6_k)
