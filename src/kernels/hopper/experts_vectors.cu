// Few tokens with the matrices of their experts: expert_gate_up_FORMAT, expert_down_FORMAT. See experts_vectors.h.

#include "kernels/hopper/experts_vectors.h"

using rocmforge::hopper::ExpertVectorArgs;

#define ROCMFORGE_EXPERT_VECTORS(format)                                                                                 \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::expert_warps * 32)                                      \
      expert_gate_up_##format(const __grid_constant__ ExpertVectorArgs args) {                                           \
    rocmforge::hopper::expert_vectors<rocmforge::hopper::WeightFormat::format, true>(args);                               \
  }                                                                                                                      \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::expert_warps * 32)                                      \
      expert_down_##format(const __grid_constant__ ExpertVectorArgs args) {                                              \
    rocmforge::hopper::expert_vectors<rocmforge::hopper::WeightFormat::format, false>(args);                              \
  }

ROCMFORGE_EXPERT_VECTORS(q4_0)
ROCMFORGE_EXPERT_VECTORS(q5_0)
ROCMFORGE_EXPERT_VECTORS(q8_0)
ROCMFORGE_EXPERT_VECTORS(mxfp4)
ROCMFORGE_EXPERT_VECTORS(q4_k)
ROCMFORGE_EXPERT_VECTORS(q5_k)
ROCMFORGE_EXPERT_VECTORS(q6_k)
