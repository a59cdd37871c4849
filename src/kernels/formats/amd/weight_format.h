#pragma once

#include <cstdint>

#include "tensor/dtype.h"

// The formats of weights that AMD's kernels serve. Host and device code include this.

/// How quantised weights are repacked when a model loads (weight_layout.h). APPLY(name): of WeightFormat, and in the names
/// of kernels.
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
  APPLY(iq3)                         \
  APPLY(iq1_iq2)                     \
  APPLY(nvfp4)

/// The types of the file that are repacked. APPLY(type, format): of DType, and the WeightFormat that holds its numbers.
#define ROCMFORGE_AMD_TYPES(APPLY) \
  APPLY(q4_0, q4_0)                \
  APPLY(q5_0, q5_0)                \
  APPLY(q8_0, q8_0)                \
  APPLY(mxfp4, mxfp4)              \
  APPLY(q4_k, q4_k)                \
  APPLY(q5_k, q5_k)                \
  APPLY(q6_k, q6_k)                \
  APPLY(q4_1, q4_1)                \
  APPLY(q5_1, q5_1)                \
  APPLY(iq4_nl, iq4_nl)            \
  APPLY(iq4_xs, iq4_xs)            \
  APPLY(q2_k, q2_k)                \
  APPLY(tq1_0, q2_k)               \
  APPLY(tq2_0, q2_k)               \
  APPLY(q3_k, q3_k)                \
  APPLY(iq3_xxs, iq3)              \
  APPLY(iq3_s, iq3)                \
  APPLY(iq2_xxs, iq1_iq2)          \
  APPLY(iq2_xs, iq1_iq2)           \
  APPLY(iq2_s, iq1_iq2)            \
  APPLY(iq1_s, iq1_iq2)            \
  APPLY(iq1_m, iq1_iq2)            \
  APPLY(nvfp4, nvfp4)

namespace rocmforge::amd {

enum class WeightFormat : std::int32_t {
#define ROCMFORGE_AMD_NAME(name) name,
  ROCMFORGE_AMD_FORMATS(ROCMFORGE_AMD_NAME)
#undef ROCMFORGE_AMD_NAME
      f16,  ///< as the file stores them, as is the next
  bf16,
  none
};

/// The format of a type that is repacked, else `none`.
constexpr WeightFormat find_weight_format(DType type) {
  switch (type) {
#define ROCMFORGE_AMD_TYPE(type, format) \
  case DType::type:                      \
    return WeightFormat::format;
    ROCMFORGE_AMD_TYPES(ROCMFORGE_AMD_TYPE)
#undef ROCMFORGE_AMD_TYPE
    default:
      return WeightFormat::none;
  }
}

constexpr bool has_weight_layout(DType type) { return find_weight_format(type) != WeightFormat::none; }

/// The format of a type that has_weight_layout.
constexpr WeightFormat weight_format(DType type) { return find_weight_format(type); }

}  // namespace rocmforge::amd
