// Rows of weights as floats, as plain as it can be written: one output element a thread.

#include "kernels/check/embedding_args.h"
#include "kernels/check/weight_row.h"

namespace rocmforge::check_kernels {

ROCMFORGE_CHECK_KERNEL check_embedding(EmbeddingCheckArgs args) {
  for_each_element(args.tokens * args.hidden, [&](std::int64_t i) {
    std::int32_t id = args.ids[i / args.hidden];
    if (id < 0 && args.drawn != nullptr) {
      id = args.drawn[-1 - id];
    }
    if (id < 0 || id >= args.vocab) {
      args.out[i] = __builtin_nanf("");
      return;
    }
    const double value = row_element(args.table + id * args.row_bytes, args.dtype, args.hidden, i % args.hidden) *
                         static_cast<double>(args.scale);
    // The product is rounded before the sum, as in every kernel.
    args.out[i] = args.add != 0 ? args.out[i] + static_cast<float>(value) : static_cast<float>(value);
  });
}

ROCMFORGE_CHECK_KERNEL check_dequantize(DequantizeCheckArgs args) {
  for_each_element(args.num_rows * args.dim, [&](std::int64_t i) {
    const std::uint8_t* const row = args.rows + i / args.dim * args.row_bytes;
    args.out[i] = static_cast<float>(row_element(row, args.dtype, args.dim, i % args.dim));
  });
}

/// After check_dequantize.
ROCMFORGE_CHECK_KERNEL check_dequantized_norm(DequantizeCheckArgs args) {
  for_each_element(args.num_rows, [&](std::int64_t row) {
    float* const out = args.out + row * args.dim;
    double squares = 0.0;
    for (std::int64_t i = 0; i < args.dim; ++i) {
      squares += static_cast<double>(out[i]) * static_cast<double>(out[i]);
    }
    const double scale = 1.0 / sqrt(squares / static_cast<double>(args.dim) + args.eps);
    for (std::int64_t i = 0; i < args.dim; ++i) {
      out[i] = static_cast<float>(static_cast<double>(out[i]) * scale * static_cast<double>(args.weight[i]));
    }
  });
}

}  // namespace rocmforge::check_kernels
