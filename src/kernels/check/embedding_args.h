#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace rocmforge::check_kernels {

/// EmbeddingRows: ops/embedding.h.
struct EmbeddingCheckArgs {
  const std::int32_t* ids;    ///< [tokens]
  const std::int32_t* drawn;  ///< or null
  const std::uint8_t* table;  ///< [vocab, hidden] as in the file
  float* out;                 ///< [tokens, hidden]
  std::int64_t tokens;
  std::int64_t vocab;
  std::int64_t hidden;
  std::int64_t row_bytes;
  DType dtype;
  float scale;
  std::int32_t add;
  std::int32_t unused;
};

/// Dequantize, and with a weight DequantizeRmsNorm: ops/building_blocks.h.
struct DequantizeCheckArgs {
  const std::uint8_t* rows;
  const float* weight;  ///< [dim] or null
  float* out;           ///< [num_rows, dim]
  std::int64_t num_rows;
  std::int64_t dim;
  std::int64_t row_bytes;
  double eps;
  DType dtype;
  std::int32_t unused;
};

}  // namespace rocmforge::check_kernels
