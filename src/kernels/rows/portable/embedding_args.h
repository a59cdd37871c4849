#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace rocmforge::gpu {

/// Grid: runs of a row, tokens. An id outside the vocabulary gives a row of NaN.
struct EmbeddingRowsArgs {
  const std::int32_t* ids;    ///< [tokens]; -1 - r is drawn[r]
  const std::int32_t* drawn;  ///< null: no id is negative
  const void* table;          ///< [vocab, hidden] of `dtype`
  float* out;                 ///< [tokens, hidden]
  std::int64_t tokens;
  std::int64_t vocab;
  std::int64_t hidden;
  std::int64_t row_bytes;
  DType dtype;
  float scale;
  std::int32_t add;  ///< 1: rows are added to `out`
  std::int32_t unused;
};

struct DequantizeArgs {
  const void* rows;  ///< `count` elements of `dtype`
  float* out;        ///< [count]
  std::int64_t count;
  DType dtype;
};

/// One work-group a row.
struct DequantizeRmsNormArgs {
  const void* rows;     ///< [num_rows, dim] of `dtype`
  const float* weight;  ///< [dim]
  float* out;           ///< [num_rows, dim]
  std::int64_t num_rows;
  std::int64_t dim;
  std::int64_t row_bytes;
  DType dtype;
  float eps;
};

}  // namespace rocmforge::gpu
