#include "kernels/attention/portable/paged.h"

namespace rocmforge::gpu {

// paged_TYPE_DIMS_GROUP: head_dim up to DIMS, GROUP query heads at once.
#define ROCMFORGE_PAGED(name, type, lanes, dims, group)                                                             \
  extern "C" __global__ void __launch_bounds__(4 * wave_size) paged_##name##_##dims##_##group(AttentionArgs args) { \
    paged_attention<type, PagedShape<lanes, group, dims / lanes / 8>>(args);                                        \
  }
#define ROCMFORGE_PAGED_GROUPS(name, type, lanes, dims) \
  ROCMFORGE_PAGED(name, type, lanes, dims, 1)           \
  ROCMFORGE_PAGED(name, type, lanes, dims, 4)           \
  ROCMFORGE_PAGED(name, type, lanes, dims, 8)
#define ROCMFORGE_PAGED_TYPE(name, type)      \
  ROCMFORGE_PAGED_GROUPS(name, type, 8, 64)   \
  ROCMFORGE_PAGED_GROUPS(name, type, 16, 128) \
  ROCMFORGE_PAGED_GROUPS(name, type, 32, 256) \
  ROCMFORGE_PAGED(name, type, 32, 512, 4)

ROCMFORGE_PAGED_TYPE(f16, half)
ROCMFORGE_PAGED_TYPE(bf16, bfloat16)
ROCMFORGE_PAGED_TYPE(f32, float)
ROCMFORGE_PAGED_TYPE(q8_0, Quant)

}  // namespace rocmforge::gpu
