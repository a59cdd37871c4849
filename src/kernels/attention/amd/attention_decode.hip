// Decode attention. See attention_decode.h.

#include "kernels/attention/amd/attention_decode.h"

using namespace rocmforge;
using rocmforge::amd::DecodeArgs;

// attention_decode_TYPE_DIMS_HEADS: head_dim up to DIMS, HEADS query heads at once.
#define ROCMFORGE_DECODE(name, type, dims, heads)                                                      \
  ROCMFORGE_KERNEL __launch_bounds__(amd::decode_threads(heads, dims, gpu::wave_size))                 \
      attention_decode_##name##_##dims##_##heads(DecodeArgs) {                                         \
    amd::attention_decode<type, amd::DecodeShape<heads, dims>>(amd::argument_of_kernel<DecodeArgs>()); \
  }
#define ROCMFORGE_DECODE_HEADS(name, type, dims) \
  ROCMFORGE_DECODE(name, type, dims, 1)          \
  ROCMFORGE_DECODE(name, type, dims, 4)          \
  ROCMFORGE_DECODE(name, type, dims, 8)
#define ROCMFORGE_DECODE_TYPE(name, type) \
  ROCMFORGE_DECODE_HEADS(name, type, 64)  \
  ROCMFORGE_DECODE_HEADS(name, type, 128) \
  ROCMFORGE_DECODE_HEADS(name, type, 256)

ROCMFORGE_DECODE_TYPE(f16, half)
ROCMFORGE_DECODE_TYPE(bf16, bfloat16)
ROCMFORGE_DECODE_TYPE(q8_0, gpu::Quant)
