// Few tokens with the matrices of their experts: expert_gate_up_FORMAT, expert_down_FORMAT. See experts_vectors.h.

#include "kernels/hopper/experts_vectors.h"

using rocmforge::hopper::ExpertVectorArgs;

// `groups`: work-groups of gate and up that share the registers of a multiprocessor.
#define ROCMFORGE_EXPERT_VECTORS(format, groups)                                                                               \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::expert_gate_up_warps * 32, groups)                           \
      expert_gate_up_##format(const __grid_constant__ ExpertVectorArgs args) {                                           \
    rocmforge::hopper::expert_vectors<rocmforge::hopper::WeightFormat::format, true>(args);                               \
  }                                                                                                                      \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::expert_down_warps(rocmforge::hopper::WeightFormat::format) * 32)                                 \
      expert_down_##format(const __grid_constant__ ExpertVectorArgs args) {                                              \
    rocmforge::hopper::expert_vectors<rocmforge::hopper::WeightFormat::format, false>(args);                              \
  }

ROCMFORGE_EXPERT_VECTORS(q4_0, 3)
ROCMFORGE_EXPERT_VECTORS(q5_0, 3)
ROCMFORGE_EXPERT_VECTORS(q8_0, 2)
ROCMFORGE_EXPERT_VECTORS(mxfp4, 3)
ROCMFORGE_EXPERT_VECTORS(q4_k, 3)
ROCMFORGE_EXPERT_VECTORS(q5_k, 2)
ROCMFORGE_EXPERT_VECTORS(q6_k, 2)
