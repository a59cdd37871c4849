#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// One work-group a row.
struct RmsNormArgs {
  const float* x;         ///< [rows, dim], rows `stride` apart
  const float* weight;    ///< [groups, dim]: row r has those of r % groups
  float* out;             ///< likewise, may be x
  const float* residual;  ///< likewise, null for none: out = (residual + factor * norm) * scale; may be out
  std::int64_t rows;
  std::int64_t dim;
  std::int64_t stride;
  std::int64_t groups;
  float eps;
  float factor;
  float scale;  ///< of the sum with the residual
};

/// One work-group a part of a row.
struct LayerNormArgs {
  const float* x;       ///< [rows, groups, dim], rows `stride` apart
  const float* weight;  ///< [groups, dim]
  const float* bias;    ///< [groups, dim], null for none
  float* out;           ///< as x, may be x
  std::int64_t rows;
  std::int64_t dim;
  std::int64_t stride;
  std::int64_t groups;
  float eps;
};

/// Grid: columns, rows.
struct GatedActivationArgs {
  const float* gate;  ///< [tokens, width], rows `stride` apart; null: out = activation(up)
  const float* up;    ///< [tokens, width], rows `up_stride` apart
  float* out;         ///< [tokens, width]
  std::int64_t tokens;
  std::int64_t width;
  std::int64_t stride;
  std::int64_t up_stride;
};

struct ResidualAddArgs {
  const float* a;  ///< [count]
  const float* b;  ///< [count]
  float* out;      ///< [count], may be a or b
  std::int64_t count;
  float factor;  ///< of b
  float scale;   ///< of the sum
};

/// Grid: columns, rows.
struct GatherRowsArgs {
  const float* x;           ///< [rows, dim]
  const std::int32_t* ids;  ///< [count]
  float* out;               ///< [count, dim]
  std::int64_t count;
  std::int64_t dim;
};

}  // namespace rocmforge::gpu
