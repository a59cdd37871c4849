#include "kernels/matmul/hopper/matmul_tiles_kernels.h"

ROCMFORGE_MATMUL_TILES_FORMAT(q4_k)
ROCMFORGE_MATMUL_FEW_GATED(q4_k, 64)
