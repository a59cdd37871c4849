#pragma once

#include <cstdint>

#include "ops/mix_streams.h"

namespace rocmforge::check_kernels {

/// MixStreams (ops/mix_streams.h).
struct MixStreamsCheckArgs {
  float* x;              ///< [tokens, streams, dim]
  const float* row;      ///< [tokens, dim], or null
  const float* logits;   ///< [tokens, streams], or null
  const float* base;     ///< [streams, columns]
  const float* coefs;    ///< [streams, columns, streams], or null
  float* first;          ///< [tokens, dim], may be row
  const float* factors;  ///< [dim], or null
  std::int64_t tokens;
  std::int64_t dim;
  MixStreams::Inputs inputs;
  std::int32_t unused;
};

/// CutRows (ops/cut_rows.h).
struct CutRowsCheckArgs {
  float* x;  ///< [rows, width], rows `stride` apart
  std::int64_t rows;
  std::int64_t width;
  std::int64_t stride;
  double deviations;
};

}  // namespace rocmforge::check_kernels
