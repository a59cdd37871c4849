// Products of packed experts with up to 8 tokens. See experts_packed.h.

#include "kernels/experts/amd/experts_packed.h"

using namespace rocmforge;
using rocmforge::amd::ExpertVectorArgs;

ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
expert_packed_gate_up(ExpertVectorArgs) {
  amd::expert_vectors<false>(amd::argument_of_kernel<ExpertVectorArgs>());
}
ROCMFORGE_KERNEL __launch_bounds__(amd::matvec_threads) __attribute__((amdgpu_waves_per_eu(ROCMFORGE_MATVEC_WAVES)))
expert_packed_down(ExpertVectorArgs) {
  amd::expert_vectors<true>(amd::argument_of_kernel<ExpertVectorArgs>());
}
