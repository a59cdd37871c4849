// Matrix products with up to 8 tokens: matvec_FORMAT_TOKENS. See matvec.h.

#include "kernels/matmul/portable/matvec.h"

using namespace rocmforge;
using rocmforge::gpu::BlockCoded;
using rocmforge::gpu::MatvecArgs;

#define ROCMFORGE_MATVEC(format, Block, tokens, rows)                                 \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups(tokens)) \
      matvec_##format##_##tokens(MatvecArgs args) {                                   \
    gpu::matvec<Block, tokens, gpu::matvec_wave_rows(tokens, rows)>(args);            \
  }
#define ROCMFORGE_MATVECS(format, Block, Element, rows) \
  ROCMFORGE_MATVEC(format, Block, 1, rows)              \
  ROCMFORGE_MATVEC(format, Block, 2, rows)              \
  ROCMFORGE_MATVEC(format, Block, 4, rows)              \
  ROCMFORGE_MATVEC(format, Block, 8, rows)

ROCMFORGE_MATMUL_FORMATS(ROCMFORGE_MATVECS)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_MATVECS)
