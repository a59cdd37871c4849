// Few tokens with the matrices of their experts: expert_gate_up_FORMAT, expert_down_FORMAT. See experts_vectors.h.

#include "kernels/experts/hopper/experts_vectors.h"

#define ROCMFORGE_EXPERT_VECTORS(name, format, gated)                                     \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::matvec_all_threads, 2)  \
      name##_##format(const __grid_constant__ rocmforge::hopper::ExpertVectorArgs args) { \
    using namespace rocmforge::hopper;                                                    \
    run_matvec<ExpertVectors<WeightFormat::format, gated>>(args);                         \
  }
#define ROCMFORGE_EXPERT_GATE_UP_AND_DOWN(format)        \
  ROCMFORGE_EXPERT_VECTORS(expert_gate_up, format, true) \
  ROCMFORGE_EXPERT_VECTORS(expert_down, format, false)

ROCMFORGE_HOPPER_FORMATS(ROCMFORGE_EXPERT_GATE_UP_AND_DOWN)
