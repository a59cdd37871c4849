#include "kernels/matmul/hopper/matmul_tiles_kernels.h"

ROCMFORGE_MATMUL_TILES_FORMAT(q8_0)
ROCMFORGE_MATMUL_FEW_GATED(q8_0, 64)
