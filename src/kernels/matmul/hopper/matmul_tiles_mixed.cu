// Queries, keys and values of files whose values are stored in Q6_K, in one launch.

#include "kernels/matmul/hopper/matmul_tiles_kernels.h"

ROCMFORGE_MATMUL_HIGH_MIXED(q4_k, q6_k, 16)
ROCMFORGE_MATMUL_HIGH_MIXED(q4_k, q6_k, 32)
ROCMFORGE_MATMUL_HIGH_MIXED(q4_k, q6_k, 64)
ROCMFORGE_MATMUL_HIGH_MIXED(q5_k, q6_k, 16)
ROCMFORGE_MATMUL_HIGH_MIXED(q5_k, q6_k, 32)
ROCMFORGE_MATMUL_HIGH_MIXED(q5_k, q6_k, 64)
