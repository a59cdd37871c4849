#include "kernels/gpu/composed.h"

namespace rocmforge::gpu {

#define ROCMFORGE_COMPOSED(name) extern "C" __global__ void __launch_bounds__(composed_threads) name(ComposedArgs args)

ROCMFORGE_COMPOSED(composed_gather_f32) { composed_gather<float>(args); }
ROCMFORGE_COMPOSED(composed_gather_f16) { composed_gather<half>(args); }
ROCMFORGE_COMPOSED(composed_gather_bf16) { composed_gather<bfloat16>(args); }
ROCMFORGE_COMPOSED(composed_gather_q8_0) { composed_gather<Quant>(args); }
ROCMFORGE_COMPOSED(composed_query_key) { composed_scores(args); }
ROCMFORGE_COMPOSED(composed_causal_mask) { composed_mask(args); }
ROCMFORGE_COMPOSED(composed_row_softmax) { composed_softmax(args); }
ROCMFORGE_COMPOSED(composed_weights_value) { composed_values(args); }

}  // namespace rocmforge::gpu
