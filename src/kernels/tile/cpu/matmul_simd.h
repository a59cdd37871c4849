#pragma once

/// The vocabulary of the matrix products: Bytes (64), Ints and Floats (16 lanes each), the same on every instruction set.
/// Only these headers hold intrinsics. Everything lives in the namespace of the instruction set.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// How integer scales are stored: see ScaleForm.
enum class MultiplierForm { signed_byte, unsigned_byte, low_nibble };

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA

#if defined(ROCMFORGE_ISA_avx512)
#include "kernels/tile/cpu/matmul_simd_avx512.h"
#elif defined(ROCMFORGE_ISA_avx2) || defined(ROCMFORGE_ISA_avxvnni)
#include "kernels/tile/cpu/matmul_simd_avx2.h"
#elif defined(ROCMFORGE_ISA_neon)
#include "kernels/tile/cpu/matmul_simd_neon.h"
#else
#include "kernels/tile/cpu/matmul_simd_generic.h"
#endif
#if !defined(ROCMFORGE_ISA_avx2)
#include "kernels/tile/cpu/matmul_chains.h"
#endif
