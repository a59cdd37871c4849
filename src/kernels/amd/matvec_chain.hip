// Products of one token, one after another in one launch. See matvec_chain.h.

#include "kernels/amd/matvec_chain.h"

using namespace rocmforge;
using rocmforge::amd::MatvecChainArgs;

#if ROCMFORGE_WAVE_SIZE == 32  // on CDNA the release of a work-group takes longer than a launch
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_chain(MatvecChainArgs) {
  amd::run_chained<amd::MatvecWay::one_token>(amd::argument_of_kernel<MatvecChainArgs>());
}
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
matvec_chain_halves(MatvecChainArgs) {
  amd::run_chained<amd::MatvecWay::one_token_halves>(amd::argument_of_kernel<MatvecChainArgs>());
}
#endif
