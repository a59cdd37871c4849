// Products of packed weights with up to 8 tokens. See matvec_packed.h.

#include "kernels/amd/matvec_packed.h"

using namespace rocmforge;
using rocmforge::amd::MatvecArgs;

ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_packed_1(MatvecArgs) {
  amd::matvec<true>(amd::argument_of_kernel<MatvecArgs>());
}
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_packed_8(MatvecArgs) {
  amd::matvec<false>(amd::argument_of_kernel<MatvecArgs>());
}
