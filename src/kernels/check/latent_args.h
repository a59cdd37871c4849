#pragma once

#include <cstdint>

#include "kernels/attention/portable/attention_args.h"

namespace rocmforge::check_kernels {

/// K and V of single heads from latent rows: ops/latent.h.
struct LatentExpandCheckArgs {
  struct Part {
    const std::uint8_t* weight;  ///< [heads] of rows as in the file: K's [rank, plain_dim], V's [value_dim, rank]
    void* out;                   ///< [sequences, heads, capacity, head_dim]
    std::int64_t head_bytes;
    std::int64_t row_bytes;
    std::int64_t columns;  ///< elements of a row of the weight
    std::int32_t dims;     ///< elements of `out` that are products; the others are what turns, or zeros
    DType dtype;
  };
  Part parts[2];  ///< K, V
  gpu::KvAddress pages;
  const std::int32_t* kv_lengths;  ///< [sequences]
  std::int64_t sequences;
  std::int64_t capacity;  ///< keys of a sequence
  std::int32_t heads;
  std::int32_t rank;
  std::int32_t head_dim;  ///< of K and V
  DType page_dtype;
  DType out_dtype;
  std::int32_t unused;
};

/// A matrix for each head: ops/latent.h.
struct HeadMatmulCheckArgs {
  const float* x;              ///< [tokens, heads, k + tail], rows x_stride apart
  const std::uint8_t* weight;  ///< [heads] of rows [n, k] as in the file
  float* out;                  ///< [tokens, heads, n + tail]
  std::int64_t x_stride;
  std::int64_t head_bytes;
  std::int64_t row_bytes;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t n;
  std::int64_t k;
  std::int64_t tail;
  const std::int32_t* sequence_of;    ///< [tokens], or null: all tokens are wanted, else those of sequences with one row
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  DType dtype;
  std::int32_t unused;
};

}  // namespace rocmforge::check_kernels
