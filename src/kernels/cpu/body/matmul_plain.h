#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/body/matmul_simd.h"
#include "kernels/cpu/matmul_body.h"

/// Products of F32, F16 and BF16 rows, read as the file stores them, with f32 activations. A sum has 16 lanes: lane l adds
/// the columns l, l + 16, ... in rising order, and the lanes are added at the end in one fixed tree.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr int lanes = 16;

constexpr std::int64_t bytes_of(DType type) { return type == DType::f32 ? 4 : 2; }

template <DType type>
inline Floats load_weights(const std::uint8_t* from) {
  if constexpr (type == DType::f32) {
    return load_floats(from);
  } else if constexpr (type == DType::f16) {
    return load_halves(from);
  } else {
    return load_bfloats(from);
  }
}

/// The last `count` columns of a row, zeros after them.
template <DType type>
inline Floats load_last_weights(const std::uint8_t* from, std::int64_t count) {
  constexpr std::int64_t bytes = bytes_of(type);
  std::uint8_t padded[lanes * bytes] = {};
  std::memcpy(padded, from, static_cast<std::size_t>(count * bytes));
  return load_weights<type>(padded);
}

inline Floats load_last_floats(const float* from, std::int64_t count) {
  float padded[lanes] = {};
  std::memcpy(padded, from, static_cast<std::size_t>(count) * sizeof(float));
  return load_floats(padded);
}

/// How far ahead of its use a row is asked for when one token reads the weight only once.
constexpr std::int64_t row_prefetch_bytes = 1536;

template <DType type, int rows, int tokens>
void multiply_plain_tile(const MatmulProduct& product, std::int64_t row, std::int64_t token) {
  constexpr std::int64_t bytes = bytes_of(type);
  const std::int64_t row_stride = product.k * bytes;
  const std::uint8_t* weights = product.weight + row * row_stride;
  const float* x = product.x + token * product.x_stride;
  Floats sum[rows][tokens];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
      sum[r][t] = zero_floats();
    }
  }
  const std::int64_t whole = product.k / lanes * lanes;
  for (std::int64_t column = 0; column < whole; column += lanes) {
    if constexpr (tokens == 1) {
      // Past the end of these rows lie the next ones that will be read together.
      std::int64_t ahead = column * bytes + row_prefetch_bytes;
      ahead += ahead < row_stride ? 0 : (rows - 1) * row_stride;
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        prefetch(weights + r * row_stride + ahead);
      }
    }
    Floats w[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      w[r] = load_weights<type>(weights + r * row_stride + column * bytes);
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
      const Floats value = load_floats(x + t * product.x_stride + column);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r) {
        sum[r][t] = multiply_add(w[r], value, sum[r][t]);
      }
    }
  }
  // The sums leave their registers here: what follows would keep the compiler from using any above.
  float totals[rows][tokens][lanes];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
      store_floats(totals[r][t], sum[r][t]);
    }
  }
  for (int t = 0; t < tokens; ++t) {
    float* out = product.out + (token + t) * product.out_stride + row;
    for (int r = 0; r < rows; ++r) {
      Floats total = load_floats(totals[r][t]);
      if (whole < product.k) {
        const Floats w = load_last_weights<type>(weights + r * row_stride + whole * bytes, product.k - whole);
        total = multiply_add(w, load_last_floats(x + t * product.x_stride + whole, product.k - whole), total);
      }
      const float y = product.bias == nullptr ? sum_of(total) : sum_of(total) + product.bias[row + r];
      out[r] = product.accumulate ? out[r] + y : y;
    }
  }
}

template <DType type, int rows, int tokens = plain_tile_tokens>
void multiply_plain_up_to(std::int64_t count, const MatmulProduct& product, std::int64_t row, std::int64_t token) {
  if constexpr (tokens > 1) {
    if (count < tokens) {
      return multiply_plain_up_to<type, rows, tokens - 1>(count, product, row, token);
    }
  }
  multiply_plain_tile<type, rows, tokens>(product, row, token);
}

/// Rows that stay in the second-level cache while all tokens pass.
constexpr std::int64_t plain_block_rows = 32;

/// Asks for one of `parts` equal parts of `bytes` bytes.
inline void prefetch_part(const std::uint8_t* from, std::int64_t bytes, std::int64_t part, std::int64_t parts) {
  for (std::int64_t at = bytes * part / parts; at < bytes * (part + 1) / parts; at += 64) {
    prefetch(from + at);
  }
}

template <DType type>
void multiply_plain_type(const MatmulProduct& product, const MatmulPart& part) {
  const std::int64_t row_stride = product.k * bytes_of(type);
  const std::int64_t tiles = (part.token_end - part.token_begin + plain_tile_tokens - 1) / plain_tile_tokens;
  for (std::int64_t block = part.row_begin; block < part.row_end; block += plain_block_rows) {
    const std::int64_t block_end = part.row_end - block < plain_block_rows ? part.row_end : block + plain_block_rows;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const std::int64_t token = part.token_begin + tile * plain_tile_tokens;
      const std::int64_t left = part.token_end - token;
      const std::int64_t count = left < plain_tile_tokens ? left : plain_tile_tokens;
      if (count > 1) {  // the next rows come from memory while these are computed with
        prefetch_part(product.weight + block_end * row_stride, (block_end - block) * row_stride, tile, tiles);
      }
      std::int64_t row = block;
      for (; row + plain_tile_rows <= block_end; row += plain_tile_rows) {
        multiply_plain_up_to<type, plain_tile_rows>(count, product, row, token);
      }
      for (; row < block_end; ++row) {
        multiply_plain_up_to<type, 1>(count, product, row, token);
      }
    }
  }
}

void multiply_plain(const MatmulProduct& product, const MatmulPart& part) {
  switch (product.dtype) {
    case DType::f32:
      return multiply_plain_type<DType::f32>(product, part);
    case DType::f16:
      return multiply_plain_type<DType::f16>(product, part);
    default:
      return multiply_plain_type<DType::bf16>(product, part);
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
