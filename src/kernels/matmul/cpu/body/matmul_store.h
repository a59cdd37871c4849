#pragma once

#include <cstdint>

#include "kernels/formats/cpu/matmul_layout.h"
#include "kernels/matmul/cpu/matmul_body.h"
#include "kernels/tile/cpu/matmul_simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// Tokens that share an unpacked panel; their partial sums stay in the second-level cache.
constexpr int chunk_tokens = 256;

/// Writes the finished sums of 16 rows (fewer at the end of the weight) of one token. One function for all formats: written
/// out in each of them its loops are a third of the code.
[[gnu::noinline]] void store_rows(const MatmulProduct& product, std::int64_t row, std::int64_t token, const float* sums) {
  const std::int64_t rows = product.n - row < packed::group_rows ? product.n - row : packed::group_rows;
  float* out = product.out + token * product.out_stride + row;
  if (rows == packed::group_rows) {
    Floats y = multiply(load_floats(sums), broadcast(product.scale));
    if (product.bias != nullptr) {
      y = add(y, load_floats(product.bias + row));
    }
    return store_floats(out, product.accumulate ? add(load_floats(out), y) : y);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const float scaled = sums[r] * product.scale;
    const float y = product.bias == nullptr ? scaled : scaled + product.bias[row + r];
    out[r] = product.accumulate ? out[r] + y : y;
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
