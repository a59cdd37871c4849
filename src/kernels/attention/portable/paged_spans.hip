#include "kernels/attention/portable/paged.h"

namespace rocmforge::gpu {

// Rows that may see further than themselves. paged_spans_TYPE_DIMS: head_dim up to DIMS, four query heads at once.
#define ROCMFORGE_PAGED_SPANS(name, type, lanes, dims)                                                              \
  extern "C" __global__ void __launch_bounds__(4 * wave_size) paged_spans_##name##_##dims(SpanAttentionArgs args) { \
    paged_attention<type, PagedShape<lanes, 4, dims / lanes / 8>>(args.call, SpanEnds{args.visible_end});           \
  }
#define ROCMFORGE_PAGED_SPANS_TYPE(name, type) \
  ROCMFORGE_PAGED_SPANS(name, type, 8, 64)     \
  ROCMFORGE_PAGED_SPANS(name, type, 16, 128)   \
  ROCMFORGE_PAGED_SPANS(name, type, 32, 256)   \
  ROCMFORGE_PAGED_SPANS(name, type, 32, 512)

ROCMFORGE_PAGED_SPANS_TYPE(f16, half)
ROCMFORGE_PAGED_SPANS_TYPE(bf16, bfloat16)
ROCMFORGE_PAGED_SPANS_TYPE(f32, float)
ROCMFORGE_PAGED_SPANS_TYPE(q8_0, Quant)

}  // namespace rocmforge::gpu
