#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "ops/output_gate.h"

namespace rocmforge::check_kernels {

/// RmsNorm (ops/rms_norm.h) and LayerNorm (ops/layer_norm.h).
struct NormCheckArgs {
  const float* x;         ///< row r starts at r / groups * stride + r % groups * group_stride
  const float* weight;    ///< [groups, dim]
  const float* bias;      ///< [groups, dim] or null
  const float* residual;  ///< as x, or null
  float* out;             ///< as x; may be x or residual
  std::int64_t rows;
  std::int64_t dim;
  std::int64_t groups;
  std::int64_t stride;
  std::int64_t group_stride;
  double eps;
  double factor;
  double scale;
  std::int32_t centred;  ///< 1: the mean is subtracted
  std::int32_t unused;
};

struct ActivationCheckArgs {
  const float* gate;  ///< [tokens, width], rows `stride` apart, or null
  const float* up;    ///< likewise, up_stride apart
  float* out;         ///< [tokens, width]
  std::int64_t tokens;
  std::int64_t width;
  std::int64_t stride;
  std::int64_t up_stride;
  Activation activation;
  std::int32_t unused;
};

struct ResidualCheckArgs {
  const float* a;
  const float* b;
  float* out;  ///< may be a or b
  std::int64_t count;
  double factor;
  double scale;
};

struct OutputGateCheckArgs {
  const float* x;       ///< [tokens, heads, dim], rows x_stride apart
  const float* gate;    ///< [tokens, heads, dim] or [tokens, heads], rows gate_stride apart
  const float* weight;  ///< [dim], null without a norm
  float* out;           ///< [tokens, heads, dim]; may be x
  std::int64_t tokens;
  std::int64_t x_stride;
  std::int64_t gate_stride;
  std::int32_t heads;
  std::int32_t dim;
  double eps;
  OutputGate::Gate form;
  std::int32_t of_heads;  ///< 1: one gate for each head
};

struct GatherCheckArgs {
  const float* x;           ///< [rows, dim]
  const std::int32_t* ids;  ///< [count]
  float* out;               ///< [count, dim]
  std::int64_t count;
  std::int64_t dim;
};

struct OverwriteCheckArgs {
  const float* x;            ///< rows x_stride apart
  const std::int32_t* from;  ///< [count]
  const std::int32_t* ids;   ///< [count]
  float* out;                ///< rows of dim elements
  std::int64_t x_stride;
  std::int64_t count;
  std::int64_t dim;
  std::int64_t add;  ///< 0: rows are replaced
};

struct CopyHeadsCheckArgs {
  const float* x;  ///< [tokens, heads, dim]
  float* out;      ///< [tokens, out_heads, out_dim]
  std::int64_t first_token;
  std::int64_t tokens;
  std::int32_t heads;
  std::int32_t dim;
  std::int32_t out_heads;
  std::int32_t out_dim;
  std::int32_t first_head;
  std::int32_t unused;
};

}  // namespace rocmforge::check_kernels
