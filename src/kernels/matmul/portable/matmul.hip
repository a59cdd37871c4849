// Matrix products with many tokens: matmul_FORMAT_large and _small, matmul_float, the activations' conversion and its end.
// See matmul.h.

#include "kernels/matmul/portable/matmul.h"

using namespace rocmforge;
using rocmforge::gpu::BlockCoded;
using rocmforge::gpu::ConvertRowsArgs;
using rocmforge::gpu::FinishRowsArgs;
using rocmforge::gpu::MatmulFloatArgs;
using rocmforge::gpu::MatmulTileArgs;

ROCMFORGE_KERNEL __launch_bounds__(gpu::convert_threads) convert_rows_f16(ConvertRowsArgs args) {
  gpu::convert_row<half>(args);
}
ROCMFORGE_KERNEL __launch_bounds__(gpu::convert_threads) convert_rows_bf16(ConvertRowsArgs args) {
  gpu::convert_row<bfloat16>(args);
}
ROCMFORGE_KERNEL __launch_bounds__(gpu::finish_threads) finish_rows(FinishRowsArgs args) { gpu::finish_row(args); }
ROCMFORGE_KERNEL __launch_bounds__(gpu::float_threads) matmul_float(MatmulFloatArgs args) { gpu::matmul_float(args); }

#define ROCMFORGE_MATMUL_TILE(format, Block, Element, size)                                                           \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::size##_matmul_tile.threads) matmul_##format##_##size(MatmulTileArgs args) { \
    gpu::matmul_tile<Block, Element, gpu::size##_matmul_tile>(args);                                                  \
  }
#define ROCMFORGE_MATMUL_TILES(format, Block, Element, rows) \
  ROCMFORGE_MATMUL_TILE(format, Block, Element, large)       \
  ROCMFORGE_MATMUL_TILE(format, Block, Element, small)

ROCMFORGE_MATMUL_TILE_FORMATS(ROCMFORGE_MATMUL_TILES)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_MATMUL_TILES)
