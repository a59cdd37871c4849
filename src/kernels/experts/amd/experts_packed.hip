// Products of packed experts with up to 8 tokens. See experts_packed.h, and experts_chain.h for several in one launch.

#include "kernels/experts/amd/experts_chain.h"
#include "kernels/experts/amd/experts_packed.h"

using namespace rocmforge;
using rocmforge::amd::ExpertChainArgs;
using rocmforge::amd::ExpertVectorArgs;

ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
expert_packed_gate_up(ExpertVectorArgs) {
  amd::expert_vectors<false>(amd::argument_of_kernel<ExpertVectorArgs>(), static_cast<int>(blockIdx.x), amd::OwnExperts{});
}
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
expert_packed_down(ExpertVectorArgs) {
  amd::expert_vectors<true>(amd::argument_of_kernel<ExpertVectorArgs>(), static_cast<int>(blockIdx.x), amd::OwnExperts{});
}
#if ROCMFORGE_WAVE_SIZE == 32  // on CDNA the end of a call in one takes longer than a launch
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
expert_chain(ExpertChainArgs) {
  amd::run_expert_chain<amd::MatvecWay::one_token>(amd::argument_of_kernel<ExpertChainArgs>());
}
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
expert_chain_halves(ExpertChainArgs) {
  amd::run_expert_chain<amd::MatvecWay::one_token_halves>(amd::argument_of_kernel<ExpertChainArgs>());
}
#endif
