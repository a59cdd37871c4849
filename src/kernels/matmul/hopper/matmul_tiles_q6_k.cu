#include "kernels/matmul/hopper/matmul_tiles_kernels.h"

ROCMFORGE_MATMUL_TILES_FORMAT(q6_k)
