#pragma once

// Activations as codes of 16 bits, each 32 with a scale and their sum: the image of matvec_shared(). A norm's factor is left
// to the products: codes do not depend on it.

#include "kernels/hopper/matvec_common.h"

namespace rocmforge::hopper {

/// 8 elements of a block to codes of 16 bits; the 4 lanes of a block find its scale together.
__device__ inline void quantise(const float (&values)[8], int lane, std::uint8_t* codes, std::uint8_t* info) {
  std::uint32_t largest = 0;  // of the magnitudes' bits, so that what is not a number is the largest of all
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    largest = max(largest, __float_as_uint(values[i]) & 0x7fffffffu);
  }
  largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
  constexpr float largest_code = 127.0f * 256.0f + 127.0f;
  const float magnitude = __uint_as_float(largest);
  const float inverse = magnitude > 1e-33f ? largest_code / magnitude : 0.0f;
  std::uint32_t upper[2] = {};
  std::uint32_t lower[2] = {};
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int code = __float2int_rn(values[i] * inverse);
    sum += code;
    // code = 256 * upper + lower, both signed bytes.
    upper[i / 4] |= (static_cast<std::uint32_t>(code + 128) >> 8 & 255u) << 8 * (i % 4);
    lower[i / 4] |= (static_cast<std::uint32_t>(code) & 255u) << 8 * (i % 4);
  }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  *reinterpret_cast<uint2*>(codes) = {upper[0], upper[1]};
  *reinterpret_cast<uint2*>(codes + 32) = {lower[0], lower[1]};
  if (lane % 4 == 0) {
    const float scale = magnitude / largest_code;
    *reinterpret_cast<float2*>(info) = {scale, scale * static_cast<float>(sum)};
  }
}

/// Where quantise_row puts a token.
struct TokenImage {
  std::uint8_t* codes;
  std::uint8_t* info;
  float* squares;  ///< [matvec_warps]: sums of squares of x, to be added up
};
__device__ inline TokenImage token_image(std::uint8_t* image, const MatvecShared& shared, int t) {
  return {image + t * shared.token_bytes, image + shared.info + t * shared.token_info_bytes,
          reinterpret_cast<float*>(image + shared.squares) + t * matvec_warps};
}

/// One pass over a token's row by matvec_threads threads: quantises chunks of 8 elements from `begin` to `end`, multiplied
/// by the norm's weights, and sums up the squares of all of x. Chunks from k / 8 on, and tokens that are missing, are zeros.
__device__ inline void quantise_row(const MatvecInput& input, int t, int begin, int end, int row_end, const TokenImage& to) {
  constexpr int batch = 2;  // on their way at once
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const float* row = input.x + t * input.x_stride;
  const bool there = t < input.tokens;
  float squares = 0.0f;
  // Whole warps go round together: begin and end are multiples of 32.
  for (int first = begin + thread; first < row_end; first += batch * matvec_threads) {
    float values[batch][8] = {};
    float weights[batch][8];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int at = first + b * matvec_threads;
      if (there && 8 * at < input.k) {
        load_eight(input, row, at, values[b]);
        if (input.norm_weight != nullptr) {
          load_eight(input, input.norm_weight, at, weights[b]);
        }
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int at = first + b * matvec_threads;
      if (input.norm_weight != nullptr && there && 8 * at < input.k) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          squares = fmaf(values[b][i], values[b][i], squares);
          values[b][i] *= weights[b][i];
        }
      }
      if (at >= begin && at < end) {
        quantise(values[b], lane, to.codes + at / 4 * 64 + at % 4 * 8, to.info + at / 4 * 8);
      }
    }
  }
  if (input.norm_weight != nullptr && begin == 0) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
      squares += __shfl_xor_sync(0xffffffffu, squares, mask);
    }
    if (lane == 0) {
      to.squares[thread / 32] = squares;
    }
  }
}

/// 1 / sqrt(mean of squares + epsilon) of a token, 1 without a norm.
__device__ inline float norm_factor(const MatvecInput& input, const float* squares) {
  if (input.norm_weight == nullptr) {
    return 1.0f;
  }
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < matvec_warps; ++w) {
    sum += squares[w];
  }
  return rsqrtf(sum / static_cast<float>(input.k) + input.norm_epsilon);
}

}  // namespace rocmforge::hopper
