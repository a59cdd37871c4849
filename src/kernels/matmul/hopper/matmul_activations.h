#pragma once

// Activations as operand B of wgmma: binary16 in swizzled boxes of 64 columns (matmul_tiles_args.h), in the order that
// dequantised weights have along k (activation_element). A lane converts 8 columns at a time; four neighbouring lanes have a
// block of 32.

#include "kernels/matmul/hopper/matmul_dequantize.h"
#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "kernels/tile/device_code.h"
#include "kernels/tile/hopper/pairs.h"

namespace rocmforge::hopper {

struct Columns {
  float x[8];
};

/// Columns `at` to at + 7 of a row, zeros from k on. `aligned`: the row starts at a multiple of 16 bytes.
__device__ inline Columns load_columns(const float* row, int at, int k, bool aligned) {
  Columns columns{};
  if (aligned && at + 8 <= k) {
    const float4 low = *reinterpret_cast<const float4*>(row + at);
    const float4 high = *reinterpret_cast<const float4*>(row + at + 4);
    columns = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at + i < k) {
        columns.x[i] = row[at + i];
      }
    }
  }
  return columns;
}

__device__ inline float squares(const Columns& columns) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum += columns.x[i] * columns.x[i];
  }
  return sum;
}

__device__ inline float largest(const Columns& columns) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    most = fmaxf(most, fabsf(columns.x[i]));
  }
  return most;
}

/// Four lanes with four words each: word i of lane j goes to lane i, as its word j.
__device__ inline void transpose(std::uint32_t (&words)[4], int lane) {
  std::uint32_t received[4];  // from lane ^ i
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int j = lane % 4 ^ i;
    received[i] = gpu::shuffle_xor(j == 0 ? words[0] : j == 1 ? words[1] : j == 2 ? words[2] : words[3], i);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int i = lane % 4 ^ j;
    words[j] = i == 0 ? received[0] : i == 1 ? received[1] : i == 2 ? received[2] : received[3];
  }
}

/// The 16 bytes that this lane stores of columns `at` on, after an exchange with its three neighbours: every fourth chunk of
/// its block of 32. All lanes of a warp take part.
__device__ inline uint4 chunk_of(const Columns& columns, float factor, int at) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int element = i / 2 * 4 + i % 2;
    words[i] = pack_pair<half>(columns.x[element] * factor, columns.x[element + 2] * factor);
  }
  transpose(words, at / 8);
  return {words[0], words[1], words[2], words[3]};
}

/// The place of that chunk in the boxes of a tile of tokens, in bytes.
__device__ inline std::int64_t chunk_place(std::int64_t box_of_tile, int tile_tokens, int row, int at) {
  const int chunk = at % tiles_box_columns / 32 * 4 + at / 8 % 4;
  return ((box_of_tile + at / tiles_box_columns) * tile_tokens + row) * 128 + (chunk ^ row % 8) * 16;
}

}  // namespace rocmforge::hopper
