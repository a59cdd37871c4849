// Fused attention of query tiles whose rows may see further than themselves: flash_spans_HEAD_DIM_TYPE, at the head_dim of
// models that see images so.

#include "kernels/attention/portable/flash.h"

namespace rocmforge::gpu {

#if ROCMFORGE_DEVICE_AMD
#define ROCMFORGE_FLASH_SPANS(head_dim, name, type)                                           \
  constexpr int span_waves_##head_dim##_##name = FlashShape<type, head_dim>::simd_waves;      \
  extern "C" __global__ void __launch_bounds__(4 * wave_size, span_waves_##head_dim##_##name) \
      flash_spans_##head_dim##_##name(SpanAttentionArgs args) {                               \
    flash_attention<type, head_dim>(args.call, SpanEnds{args.visible_end});                   \
  }
#else
#define ROCMFORGE_FLASH_SPANS(head_dim, name, type)                                                                     \
  extern "C" __global__ void __launch_bounds__(4 * wave_size) flash_spans_##head_dim##_##name(SpanAttentionArgs args) { \
    flash_attention<type, head_dim>(args.call, SpanEnds{args.visible_end});                                             \
  }
#endif
#define ROCMFORGE_FLASH_SPANS_TYPES(head_dim) \
  ROCMFORGE_FLASH_SPANS(head_dim, f16, half)  \
  ROCMFORGE_FLASH_SPANS(head_dim, bf16, bfloat16)

ROCMFORGE_FLASH_SPANS_TYPES(128)
ROCMFORGE_FLASH_SPANS_TYPES(256)

}  // namespace rocmforge::gpu
