// Products of packed weights with up to 8 tokens. See matvec_packed.h, and matvec_chain.h for several in one launch.

#include "kernels/matmul/amd/matvec_chain.h"
#include "kernels/matmul/amd/matvec_matrix.h"
#include "kernels/matmul/amd/matvec_packed.h"

using namespace rocmforge;
using rocmforge::amd::MatvecArgs;
using rocmforge::amd::MatvecChainArgs;

template <amd::MatvecWay way>
__device__ __forceinline__ void run_alone() {
  amd::matvec<way>(amd::argument_of_kernel<MatvecArgs>(), static_cast<int>(blockIdx.x), amd::OwnLaunch{});
}

ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_packed_1(MatvecArgs) {
  run_alone<amd::MatvecWay::one_token>();
}
#if ROCMFORGE_WAVE_SIZE == 32  // a wave of 64 would take more steps for it, which costs more
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_packed_1_halves(MatvecArgs) {
  run_alone<amd::MatvecWay::one_token_halves>();
}
// Chains: on CDNA the end of a call in one takes longer than a launch.
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_chain(MatvecChainArgs) {
  amd::run_chained<amd::MatvecWay::one_token>(amd::argument_of_kernel<MatvecChainArgs>());
}
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_chain_halves(MatvecChainArgs) {
  amd::run_chained<amd::MatvecWay::one_token_halves>(amd::argument_of_kernel<MatvecChainArgs>());
}
#endif
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_packed_8(MatvecArgs) {
  run_alone<amd::MatvecWay::several_tokens>();
}
#if ROCMFORGE_BYTE_TILES
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_packed_8_matrix(MatvecArgs) {
  amd::matvec_matrix(amd::argument_of_kernel<MatvecArgs>());
}
#endif
