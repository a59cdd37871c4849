// The products of latent attention as plain as they can be written: one output element a thread, sums in double, weights as
// the file stores them.

#include "kernels/check/latent_args.h"
#include "kernels/check/page_element.h"
#include "kernels/check/weight_row.h"

namespace rocmforge::check_kernels {

ROCMFORGE_CHECK_KERNEL check_latent_expand(LatentExpandCheckArgs args) {
  const std::int64_t all = args.sequences * args.heads * args.capacity * args.head_dim;
  for_each_element(2 * all, [&](std::int64_t index) {
    const bool is_key = index < all;
    const LatentExpandCheckArgs::Part part = is_key ? args.parts[0] : args.parts[1];
    const std::int64_t i = is_key ? index : index - all;
    const int dim = static_cast<int>(i % args.head_dim);
    const int key = static_cast<int>(i / args.head_dim % args.capacity);
    const std::int64_t head = i / args.head_dim / args.capacity % args.heads;
    const int sequence = static_cast<int>(i / args.head_dim / args.capacity / args.heads);
    if (key >= args.kv_lengths[sequence]) {
      return;
    }
    const auto latent = [&](int at) {
      return page_element(args.pages, args.page_dtype, args.pages.k, sequence, key, 0, at);
    };
    double sum = dim < part.dims || !is_key ? 0.0 : latent(args.rank + dim - part.dims);
    for (int r = 0; r < args.rank && dim < part.dims; ++r) {
      const std::uint8_t* const row = part.weight + head * part.head_bytes + (is_key ? r : dim) * part.row_bytes;
      sum += latent(r) * row_element(row, part.dtype, part.columns, is_key ? dim : r);
    }
    gpu::store_io(part.out, args.out_dtype, i, static_cast<float>(sum));
  });
}

ROCMFORGE_CHECK_KERNEL check_head_matmul(HeadMatmulCheckArgs args) {
  const std::int64_t width = args.n + args.tail;
  for_each_element(args.tokens * args.heads * width, [&](std::int64_t i) {
    // Neighbouring threads have neighbouring tokens, so that they read the same weights.
    const std::int64_t t = i % args.tokens;
    const std::int64_t n = i / args.tokens % width;
    const std::int64_t head = i / args.tokens / width;
    if (args.sequence_of != nullptr) {
      const std::int32_t* const rows = args.query_offsets + args.sequence_of[t];
      if (rows[1] - rows[0] != 1) {
        return;
      }
    }
    const float* const x = args.x + t * args.x_stride + head * (args.k + args.tail);
    float& out = args.out[(t * args.heads + head) * width + n];
    out = n < args.n ? static_cast<float>(row_product(args.weight + head * args.head_bytes + n * args.row_bytes, args.dtype,
                                                      x, nullptr, args.k))
                     : x[args.k + n - args.n];
  });
}

}  // namespace rocmforge::check_kernels
