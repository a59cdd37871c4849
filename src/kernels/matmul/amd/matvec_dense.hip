// Products of F16 and BF16 weights with up to 8 tokens. See matvec_dense.h.

#include "kernels/matmul/amd/matvec_dense.h"

using namespace rocmforge;
using rocmforge::amd::MatvecArgs;

#if ROCMFORGE_WAVE_SIZE == 32
inline constexpr amd::MatvecWay one_token = amd::MatvecWay::one_token_halves;
#else
inline constexpr amd::MatvecWay one_token = amd::MatvecWay::one_token;
#endif

ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_dense_1(MatvecArgs) {
  amd::matvec_dense<one_token>(amd::argument_of_kernel<MatvecArgs>());
}
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_dense_8(MatvecArgs) {
  amd::matvec_dense<amd::MatvecWay::several_tokens>(amd::argument_of_kernel<MatvecArgs>());
}
