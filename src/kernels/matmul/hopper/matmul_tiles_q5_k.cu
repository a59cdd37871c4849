#include "kernels/matmul/hopper/matmul_tiles_kernels.h"

ROCMFORGE_MATMUL_TILES_FORMAT(q5_k)
ROCMFORGE_MATMUL_FEW_GATED(q5_k, 64)
