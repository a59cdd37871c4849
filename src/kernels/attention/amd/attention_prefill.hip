// Fused attention of query tiles at head_dim 192, 256 and 512: prefill_HEAD_DIM_TYPE. On RDNA, and at 512 on CDNA, waves
// share rows, each with a part of the dimensions (kernels/attention/portable/flash.h), so that a wave holds no more than at
// head_dim 128. At 192 and 256 on CDNA they share rows and keys (kernels/attention/portable/flash_split_long.h).

#include "kernels/attention/amd/attention_prefill_args.h"
#include "kernels/attention/portable/flash.h"

namespace rocmforge::gpu {

#define ROCMFORGE_PREFILL(head_dim, name, type)                                                                           \
  using Shape_##head_dim##_##name =                                                                                       \
      FlashResources<type, head_dim, amd::prefill_parts(head_dim), amd::prefill_row_waves(head_dim)>;                     \
  extern "C" __global__ void __launch_bounds__(Shape_##head_dim##_##name::threads, Shape_##head_dim##_##name::simd_waves) \
      prefill_##head_dim##_##name(AttentionArgs args) {                                                                   \
    flash_attention<type, head_dim, amd::prefill_parts(head_dim), amd::prefill_row_waves(head_dim)>(args);                \
  }
#define ROCMFORGE_PREFILL_TYPES(head_dim) \
  ROCMFORGE_PREFILL(head_dim, f16, half)  \
  ROCMFORGE_PREFILL(head_dim, bf16, bfloat16)

ROCMFORGE_PREFILL_TYPES(192)
ROCMFORGE_PREFILL_TYPES(256)
ROCMFORGE_PREFILL_TYPES(512)

}  // namespace rocmforge::gpu
