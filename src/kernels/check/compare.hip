// Inputs without a pattern, and the comparison of an output with the expected one: every element, on the device.

#include "kernels/attention/portable/attention.h"
#include "kernels/check/check_code.h"
#include "kernels/check/compare_args.h"

namespace rocmforge::check_kernels {
namespace {

/// SplitMix64 (Steele et al. 2014): a permutation of 64 bits.
__device__ std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

__device__ bool is_finite(float x) { return x - x == 0.0f; }

}  // namespace

ROCMFORGE_CHECK_KERNEL check_fill(FillArgs args) {
  for_each_element(args.count, [&](std::int64_t i) {
    // The sum of four uniform numbers of 16 bits has variance 1/3.
    const std::uint64_t bits = mixed(mixed(args.seed) + static_cast<std::uint64_t>(i));
    float sum = -2.0f;
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<float>(bits >> 16 * part & 0xffffu) / 65536.0f;
    }
    gpu::store_io(args.to, args.dtype, i, sum * 1.7320508f * args.size);
  });
}

ROCMFORGE_CHECK_KERNEL check_fill_blocks(FillBlocksArgs args) {
  for_each_element(args.count * args.block_bytes, [&](std::int64_t i) {
    const auto block = static_cast<std::uint64_t>(i / args.block_bytes);
    const std::uint64_t chosen = mixed(mixed(args.seed) + block) % static_cast<std::uint64_t>(args.pool_count);
    args.to[i] = args.pool[static_cast<std::int64_t>(chosen) * args.block_bytes + i % args.block_bytes];
  });
}

ROCMFORGE_CHECK_KERNEL check_compare(CompareArgs args) {
  for_each_element(args.rows, [&](std::int64_t row) {
    RowDifference found{};
    for (std::int64_t i = row * args.width; i < (row + 1) * args.width; ++i) {
      const float actual = gpu::load_io(args.actual, args.dtype, i);
      const float expected = gpu::load_io(args.expected, args.dtype, i);
      if (!is_finite(expected)) {
        found.missing += is_finite(actual) ? 1 : 0;  // written where nothing may be written
        continue;
      }
      found.expected += static_cast<double>(expected) * static_cast<double>(expected);
      if (!is_finite(actual)) {
        ++found.missing;
        continue;
      }
      const double difference = static_cast<double>(actual) - static_cast<double>(expected);
      found.error += difference * difference;
    }
    args.differences[row] = found;
  });
}

}  // namespace rocmforge::check_kernels
