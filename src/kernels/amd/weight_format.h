#pragma once

#include <cstdint>

#include "tensor/dtype.h"

// The formats of weights that this folder's kernels serve. Host and device code include this.

/// The quantised ones, repacked when a model loads (weight_layout.h). APPLY(name): of WeightFormat, of DType and in the
/// names of kernels.
#define ROCMFORGE_AMD_FORMATS(APPLY) \
  APPLY(q4_0)                        \
  APPLY(q5_0)                        \
  APPLY(q8_0)                        \
  APPLY(mxfp4)                       \
  APPLY(q4_k)                        \
  APPLY(q5_k)                        \
  APPLY(q6_k)                        \
  APPLY(q4_1)                        \
  APPLY(q5_1)                        \
  APPLY(iq4_nl)                      \
  APPLY(iq4_xs)                      \
  APPLY(q2_k)                        \
  APPLY(q3_k)                        \
  APPLY(iq3_s)                       \
  APPLY(iq2_s)

namespace rocmforge::amd {

enum class WeightFormat : std::int32_t {
#define ROCMFORGE_AMD_NAME(name) name,
  ROCMFORGE_AMD_FORMATS(ROCMFORGE_AMD_NAME)
#undef ROCMFORGE_AMD_NAME
      f16,  ///< as the file stores them, as is the next
  bf16,
  none
};

/// Of a type that is repacked, or `none`.
constexpr WeightFormat find_weight_format(DType type) {
  switch (type) {
#define ROCMFORGE_AMD_TYPE(name) \
  case DType::name:              \
    return WeightFormat::name;
    ROCMFORGE_AMD_FORMATS(ROCMFORGE_AMD_TYPE)
#undef ROCMFORGE_AMD_TYPE
    default:
      return WeightFormat::none;
  }
}

constexpr bool has_weight_layout(DType type) { return find_weight_format(type) != WeightFormat::none; }

/// Of a type that has_weight_layout.
constexpr WeightFormat weight_format(DType type) { return find_weight_format(type); }

}  // namespace rocmforge::amd
