// Products of experts as plain as they can be written: one output element a thread, sums in double, weights as the file
// stores them.

#include "kernels/check/experts_args.h"
#include "kernels/check/weight_row.h"

namespace rocmforge::check_kernels {
namespace {

/// The product of a slot's expert with its input.
__device__ __forceinline__ double product(const ExpertsCheckArgs& args, const ExpertsCheckArgs::Part part, std::int64_t n,
                                          std::int64_t slot) {
  const std::int64_t expert = args.ids[slot];
  const auto* const row = static_cast<const std::uint8_t*>(part.weight) + expert * part.expert_bytes + n * part.row_bytes;
  const float* const x = args.x + (args.down != 0 ? slot : slot / args.used) * args.k;
  const double scale = part.scale != nullptr ? static_cast<double>(part.scale[expert]) : 1.0;
  const double bias = part.bias != nullptr ? static_cast<double>(part.bias[expert * part.bias_stride + n]) : 0.0;
  return row_product(row, part.dtype, x, nullptr, args.k) * scale + bias;
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_experts(ExpertsCheckArgs args) {
  for_each_element(args.outputs * args.n, [&](std::int64_t i) {
    const std::int64_t row = i / args.n;
    const std::int64_t n = i % args.n;
    const bool down = args.down != 0;
    double result = down ? static_cast<double>(args.out[i]) : 0.0;
    const std::int64_t products = down ? args.used : 1 + args.gated;
#pragma unroll 1
    for (std::int64_t j = 0; j < products; ++j) {  // one call, so that it is inlined once
      const std::int64_t slot = down ? row * args.used + j : row;
      const double sum = product(args, args.parts[down ? 0 : j], n, slot);
      if (down) {
        result += static_cast<double>(args.shares[slot]) * sum;
      } else if (args.gated == 0) {
        result = activate(args.activation, sum, 1.0);
      } else {
        result = j == 0 ? sum : activate(args.activation, result, sum);
      }
    }
    args.out[i] = static_cast<float>(result);
  });
}

}  // namespace rocmforge::check_kernels
