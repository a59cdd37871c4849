#include "kernels/matmul/hopper/matmul_tiles_kernels.h"

ROCMFORGE_MATMUL_TILES_FORMAT(q4_0)
ROCMFORGE_MATMUL_FEW_GATED(q4_0, 64)
