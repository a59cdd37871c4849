// Products as plain as they can be written: one output element a thread, sums in double, weights as the file stores them.

#include "kernels/check/matmul_args.h"
#include "kernels/check/weight_row.h"

namespace rocmforge::check_kernels {
namespace {

/// The product of a row of a weight with a token's input.
__device__ __forceinline__ double product(const MatmulCheckArgs& args, const MatmulCheckArgs::Part part, std::int64_t n, std::int64_t t) {
  const auto* const row = static_cast<const std::uint8_t*>(part.weight) + n * part.row_bytes;
  const double sum = row_product(row, part.dtype, args.x + t * args.x_stride, args.norm_weight, args.k);
  const double factor = args.factors != nullptr ? args.factors[t] : 1.0;
  return sum * part.scale * factor + (part.bias != nullptr ? static_cast<double>(part.bias[n]) : 0.0);
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_matmul(MatmulCheckArgs args) {
  for_each_element(args.tokens * args.n, [&](std::int64_t i) {
    // Neighbouring threads have neighbouring tokens, so that they read the same weights.
    const std::int64_t t = i % args.tokens;
    const std::int64_t n = i / args.tokens;
    double result = 0.0;
#pragma unroll 1
    for (int part = 0; part <= args.gated; ++part) {  // one call, so that it is inlined once
      const double sum = product(args, part == 0 ? args.first : args.up, n, t);
      result = part == 0 ? sum : activate(args.activation, result, sum);
    }
    float& out = args.out[t * args.out_stride + n];
    out = static_cast<float>(args.accumulate != 0 ? static_cast<double>(out) + result : result);
  });
}

ROCMFORGE_CHECK_KERNEL check_row_factors(RowFactorsArgs args) {
  for_each_element(args.tokens, [&](std::int64_t t) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < args.k; ++i) {
      const double x = static_cast<double>(args.x[t * args.x_stride + i]);
      sum += x * x;
    }
    args.factors[t] = 1.0 / sqrt(sum / static_cast<double>(args.k) + args.eps);
  });
}

ROCMFORGE_CHECK_KERNEL check_post_norm(PostNormArgs args) {
  for_each_element(args.tokens * args.k, [&](std::int64_t index) {
    const std::int64_t t = index / args.k;
    const std::int64_t i = index % args.k;
    const double normed = args.factor * args.factors[t] * static_cast<double>(args.y[t * args.y_stride + i]) *
                          static_cast<double>(args.weight[i]);
    args.out[t * args.out_stride + i] =
        static_cast<float>((static_cast<double>(args.x[t * args.x_stride + i]) + normed) * args.scale);
  });
}

}  // namespace rocmforge::check_kernels
