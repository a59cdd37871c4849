#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

// The quantised formats that Hopper's kernels repack when a model loads (formats/hopper/weight_layout.h); AMD's have a list
// of their own. Host and device code include this.

namespace rocmforge::gpu {

enum class WeightFormat : std::int32_t { q4_0, q5_0, q8_0, mxfp4, q4_k, q5_k, q6_k };
inline constexpr WeightFormat weight_formats[] = {WeightFormat::q4_0,  WeightFormat::q5_0, WeightFormat::q8_0,
                                                  WeightFormat::mxfp4, WeightFormat::q4_k, WeightFormat::q5_k,
                                                  WeightFormat::q6_k};

/// The name of a format in the names of kernels.
constexpr std::string_view weight_format_name(WeightFormat format) {
  constexpr std::string_view names[] = {"q4_0", "q5_0", "q8_0", "mxfp4", "q4_k", "q5_k", "q6_k"};
  return names[static_cast<int>(format)];
}

/// Whether `type` is one of them.
constexpr bool has_weight_layout(DType type) {
  return type == DType::q4_0 || type == DType::q5_0 || type == DType::q8_0 || type == DType::mxfp4 || type == DType::q4_k ||
         type == DType::q5_k || type == DType::q6_k;
}

/// The format of a `type` that has_weight_layout.
constexpr WeightFormat weight_format(DType type) {
  return type == DType::q4_0    ? WeightFormat::q4_0
         : type == DType::q5_0  ? WeightFormat::q5_0
         : type == DType::q8_0  ? WeightFormat::q8_0
         : type == DType::mxfp4 ? WeightFormat::mxfp4
         : type == DType::q4_k  ? WeightFormat::q4_k
         : type == DType::q5_k  ? WeightFormat::q5_k
                                : WeightFormat::q6_k;
}

}  // namespace rocmforge::gpu
