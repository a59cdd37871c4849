#include "kernels/matmul/hopper/matmul_tiles_kernels.h"

ROCMFORGE_MATMUL_TILES_FORMAT(mxfp4)
ROCMFORGE_MATMUL_FEW_GATED(mxfp4, 64)
