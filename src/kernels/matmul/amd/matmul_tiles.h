#pragma once

#include "kernels/matmul/portable/matmul_args.h"

namespace rocmforge::amd {

/// The tiles of products with many tokens, of RDNA and of CDNA. CDNA's shared memory is half as large: a tile of it has one
/// buffer there, and two work-groups of a CU take turns.
inline constexpr gpu::MatmulTileShape rdna_matmul_tile{128, 128, 32, 256, 2};
inline constexpr gpu::MatmulTileShape cdna_matmul_tile{64, 128, 64, 512, 2};

}  // namespace rocmforge::amd
