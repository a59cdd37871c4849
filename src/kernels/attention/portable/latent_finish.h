#pragma once

// The end of a row of latent attention.

#include "kernels/attention/portable/paged.h"

namespace rocmforge::gpu {

/// Writes element `dim` of head g of a work-group's row: its weighted sum over the sum of the weights, with the head's sink;
/// zero where no weight is above zero.
__device__ inline void finish_latent(const AttentionArgs& args, const PagedPlace& place, int g, int dim, float sum,
                                     float maximum, float weight) {
  const int head = place.first_head + g;
  if (args.sinks != nullptr) {
    const float largest = finite_maximum(maximum);
    const float sink = args.sinks[head] * log2_e;
    const float now = fmaxf(largest, sink);
    const float factor = exp2_fast(largest - now);
    sum *= factor;
    weight = weight * factor + exp2_fast(sink - now);
  }
  store_io(args.out, args.io_dtype, (std::int64_t{place.row} * args.q_heads + head) * args.value_dim + dim,
           weight > 0.0f ? sum / weight : 0.0f);
}

}  // namespace rocmforge::gpu
