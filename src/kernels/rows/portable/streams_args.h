#pragma once

#include <cstdint>

namespace rocmforge::gpu {

inline constexpr int mixed_streams = 4;     ///< of a token
inline constexpr int mixing_threads = 512;  ///< at most: each holds four columns of all streams

/// One work-group a token.
struct MixStreamsArgs {
  float* x;              ///< [tokens, streams, dim]
  const float* row;      ///< [tokens, dim], or null
  const float* logits;   ///< [tokens, streams], or null
  const float* base;     ///< [streams, columns]
  const float* coefs;    ///< [streams, columns, streams], or null
  float* first;          ///< [tokens, dim], may be row
  const float* factors;  ///< [dim], or null
  std::int64_t tokens;
  std::int64_t dim;
  float least_square;
  std::int32_t unused;
};

/// One work-group a row.
struct CutRowsArgs {
  float* x;  ///< [rows, width], rows `stride` apart
  std::int64_t rows;
  std::int64_t width;
  std::int64_t stride;
  float deviations;
  std::int32_t unused;
};

}  // namespace rocmforge::gpu
