#pragma once

// Inputs without a pattern, and comparisons of outputs with those of the plain kernels, in the memory of a GPU
// (compare.hip).

#include <cstdint>

#include "device/device.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// Normal-like values of mean 0 and deviation `size` in `count` elements of f32, f16 or bf16.
void fill_random(Stream& stream, void* to, DType dtype, std::int64_t count, std::uint64_t seed, float size = 1.0f);

/// `count` blocks of `block_bytes`, each drawn from a pool of `pool_count`; both in device memory.
void fill_blocks(Stream& stream, void* to, const void* pool, std::int64_t count, std::int64_t pool_count,
                 std::int64_t block_bytes, std::uint64_t seed);

/// How an output differs from the expected one.
struct Difference {
  double relative = 0.0;  ///< |actual - expected| / |expected|, Euclidean norms over all finite elements
  std::int64_t missing_rows =
      0;  ///< rows with elements that are not finite where the expected ones are, or the other way round
  std::int64_t wrong_rows = 0;  ///< other rows whose own relative difference is above the tolerance
  std::int64_t worst_row = -1;
  double worst = 0.0;  ///< relative difference of that row

  [[nodiscard]] bool all_rows_right() const { return missing_rows == 0 && wrong_rows == 0; }
};

/// Compares [rows, width] elements of f32, f16 or bf16 in device memory. A row's difference is relative to its expected
/// norm, or to a thousandth of what rows have on average where that is more. Waits for the stream.
Difference compare_on_device(Device& device, const void* actual, const void* expected, DType dtype, std::int64_t rows,
                             std::int64_t width, double row_tolerance);

}  // namespace rocmforge
