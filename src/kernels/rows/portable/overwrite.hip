// Rows that replace embeddings, or are added to hidden states: overwrite_rows.

#include "kernels/rows/portable/overwrite_args.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {

ROCMFORGE_KERNEL overwrite_rows(OverwriteRowsArgs args) {
  begin_dependent();
  const bool fours = takes_fours(args.x, args.dim) && args.x_stride % 4 == 0 && takes_fours(args.out, args.dim);
  for (std::int64_t row = blockIdx.y; row < args.count; row += gridDim.y) {
    const float* from = args.x + args.from[row] * args.x_stride;
    float* to = args.out + args.ids[row] * args.dim;
    if (args.add != 0) {
      for (std::int64_t i = grid_index(); i < args.dim; i += grid_threads()) {
        to[i] += from[i];
      }
    } else if (fours) {
      for (std::int64_t item = grid_index(); item < args.dim / 4; item += grid_threads()) {
        store(to, item, load<4>(from, item));
      }
    } else {
      for (std::int64_t i = grid_index(); i < args.dim; i += grid_threads()) {
        to[i] = from[i];
      }
    }
  }
}

}  // namespace rocmforge::gpu
