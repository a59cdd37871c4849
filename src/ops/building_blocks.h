#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/registry.h"
#include "tensor/dtype.h"

namespace rocmforge {

// Small steps of a layer as operations of their own. All tensors are f32 and dense unless stated otherwise.

/// out[i] = (a[i] + factor * b[i]) * scale
struct ResidualAdd {
  static constexpr std::string_view name = "residual_add";
  struct Spec {};
  struct Args {
    const float* a = nullptr;  ///< [count]
    const float* b = nullptr;  ///< [count]
    std::int64_t count = 0;
    float* out = nullptr;  ///< [count], may be a or b
    float factor = 1.0f;
    float scale = 1.0f;
  };
};

/// out[i] = the value of element i, with the same bits as dequantize_row (tensor/quant/dequantize.h).
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  struct Spec {
    DType dtype = DType::f32;
  };
  struct Args {
    const void* rows = nullptr;  ///< `count` elements of Spec::dtype
    std::int64_t count = 0;      ///< a multiple of the format's block
    float* out = nullptr;        ///< [count]
  };
};

/// out[r] = rms_norm(dequantised row r) * weight
struct DequantizeRmsNorm {
  static constexpr std::string_view name = "dequantize_rms_norm";
  struct Spec {
    DType dtype = DType::f32;
    std::int64_t dim = 0;
    float eps = 1e-5f;
  };
  struct Args {
    const void* rows = nullptr;  ///< [rows, dim] of Spec::dtype
    std::int64_t num_rows = 0;
    const float* weight = nullptr;  ///< [dim]
    float* out = nullptr;           ///< [rows, dim]
  };
};

/// out[i] = x[ids[i]]: the wanted rows of the residual stream.
struct GatherRows {
  static constexpr std::string_view name = "gather_rows";
  struct Spec {
    std::int64_t dim = 0;
  };
  struct Args {
    const float* x = nullptr;           ///< [rows, dim]
    const std::int32_t* ids = nullptr;  ///< [count]
    std::int64_t count = 0;
    float* out = nullptr;  ///< [count, dim], not x
  };
};

std::string to_string(const ResidualAdd::Spec& spec);
std::string to_string(const Dequantize::Spec& spec);
std::string to_string(const DequantizeRmsNorm::Spec& spec);
std::string to_string(const GatherRows::Spec& spec);

}  // namespace rocmforge
