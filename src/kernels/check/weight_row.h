#pragma once

// Rows of weights as the file stores them: the product of one with an input, and single elements.

#include "kernels/check/check_code.h"
#include "kernels/formats/formats.h"

namespace rocmforge::check_kernels {

/// sum of row[i] * x[i] * norm_weight[i] over k elements; norm_weight may be null.
__device__ __forceinline__ double row_product(const std::uint8_t* row, DType dtype, const float* x, const float* norm_weight,
                                              std::int64_t k) {
  double sum = 0.0;
  for (std::int64_t first = 0; first < k; first += gpu::read_elems) {
    float weights[gpu::read_elems] = {};
    gpu::visit_format(
        Formats(), dtype, [&]<class Block>(Block*) __attribute__((always_inline)) {
          gpu::read_elements(reinterpret_cast<const Block*>(row), first, k, weights);
        });
#pragma unroll
    for (int i = 0; i < gpu::read_elems; ++i) {
      if (first + i >= k) {
        continue;
      }
      const double norm = norm_weight != nullptr ? static_cast<double>(norm_weight[first + i]) : 1.0;
      sum += static_cast<double>(x[first + i]) * static_cast<double>(weights[i]) * norm;
    }
  }
  return sum;
}

/// Element `i` of a row of k.
__device__ __forceinline__ double row_element(const std::uint8_t* row, DType dtype, std::int64_t k, std::int64_t i) {
  float values[gpu::read_elems] = {};
  gpu::visit_format(
      Formats(), dtype, [&]<class Block>(Block*) __attribute__((always_inline)) {
        gpu::read_elements(reinterpret_cast<const Block*>(row), i / gpu::read_elems * gpu::read_elems, k, values);
      });
  float element = 0.0f;
#pragma unroll
  for (int j = 0; j < gpu::read_elems; ++j) {  // an index that is known when it is compiled keeps the values in registers
    element = i % gpu::read_elems == j ? values[j] : element;
  }
  return static_cast<double>(element);
}

}  // namespace rocmforge::check_kernels
