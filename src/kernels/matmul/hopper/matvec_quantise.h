#pragma once

// Activations as codes of 16 bits, 32 of them with a scale and their sum: the image of matvec_shared(). The products apply a
// norm's factor: codes do not depend on it.

#include "kernels/matmul/hopper/matvec_post_norm.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/mma.h"

namespace rocmforge::hopper {

/// The codes of a block, whose largest magnitude has the bits `largest`.
struct BlockCodes {
  static constexpr float largest_code = 127.0f * 256.0f + 127.0f;
  float magnitude;
  float inverse;

  __device__ explicit BlockCodes(std::uint32_t largest)
      : magnitude(__uint_as_float(largest)), inverse(magnitude > 1e-33f ? largest_code / magnitude : 0.0f) {}
  __device__ float2 info(int sum_of_codes) const {
    const float scale = magnitude / largest_code;
    return {scale, scale * static_cast<float>(sum_of_codes)};
  }
  __device__ int code(float value) const { return __float2int_rn(value * inverse); }
  // code = 256 * upper + lower, both signed bytes.
  __device__ static std::uint32_t upper(int code) { return static_cast<std::uint32_t>(code + 128) >> 8 & 255u; }
  __device__ static std::uint32_t lower(int code) { return static_cast<std::uint32_t>(code) & 255u; }
};

/// The bits of a value's magnitude, so that NaN is the largest of all.
__device__ inline std::uint32_t magnitude_bits(float value) { return __float_as_uint(value) & 0x7fffffffu; }

/// 8 elements of a block to codes of 16 bits; the 4 lanes of a block find its scale together. `for_mxfp4`: the codes lie in
/// the order of mxfp4_operands.
template <bool for_mxfp4>
__device__ inline void quantise(const float (&values)[8], int lane, std::uint8_t* codes, std::uint8_t* info) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    largest = max(largest, magnitude_bits(values[i]));
  }
  largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
  const BlockCodes block(largest);
  std::uint32_t upper[2] = {};
  std::uint32_t lower[2] = {};
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int code = block.code(values[i]);
    sum += code;
    upper[i / 4] |= BlockCodes::upper(code) << 8 * (i % 4);
    lower[i / 4] |= BlockCodes::lower(code) << 8 * (i % 4);
  }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  const uint2 uppers{upper[0], upper[1]};
  const uint2 lowers{lower[0], lower[1]};
  *reinterpret_cast<uint2*>(codes) = for_mxfp4 ? in_order_of_nibbles(uppers) : uppers;
  *reinterpret_cast<uint2*>(codes + 32) = for_mxfp4 ? in_order_of_nibbles(lowers) : lowers;
  if (lane % 4 == 0) {
    *reinterpret_cast<float2*>(info) = block.info(sum);
  }
}

/// The place of a token's image that quantise_row writes.
struct TokenImage {
  std::uint8_t* codes;
  std::uint8_t* info;
  float* squares;  ///< [matvec_warps]: sums of squares of x, to be added up
};
__device__ inline TokenImage token_image(std::uint8_t* image, const MatvecShared& shared, int t) {
  return {image + t * shared.token_bytes, image + shared.info + t * shared.token_info_bytes,
          reinterpret_cast<float*>(image + shared.squares) + t * matvec_warps};
}

inline constexpr int quantise_batch = 2;  ///< chunks of a thread loaded together

/// The norms' weights for a thread's chunks `first` and first + matvec_threads; without a norm they have no meaning.
struct NormWeights {
  float post[quantise_batch][8];
  float norm[quantise_batch][8];

  __device__ void load(const MatvecInput& input, int first) {
    load_post(input, first);
    load_norm(input, first);
  }
  __device__ void load_post(const MatvecInput& input, int first) {
#pragma unroll
    for (int b = 0; b < quantise_batch; ++b) {
      if (const int at = first + b * matvec_threads; input.post_norm.y != nullptr && 8 * at < input.k) {
        load_eight(input, input.post_norm.weight, at, post[b]);
      }
    }
  }
  __device__ void load_norm(const MatvecInput& input, int first) {
#pragma unroll
    for (int b = 0; b < quantise_batch; ++b) {
      if (const int at = first + b * matvec_threads; input.norm_weight != nullptr && 8 * at < input.k) {
        load_eight(input, input.norm_weight, at, norm[b]);
      }
    }
  }
};

/// Chunks of 8 elements of a row: those from `begin` to `end` are quantised, squares are summed up to `row_end`. All are
/// multiples of 32, so that whole warps go round together.
struct RowChunks {
  int begin;
  int end;
  int row_end;
};

/// One pass over a token's row by matvec_threads threads: quantises chunks, multiplied by the norm's weights, and sums up
/// the squares of all of x. Chunks from k / 8 on, and tokens that are missing, are zeros. A post-norm needs a pass over y
/// before, for which `scratch` is [matvec_warps] of shared memory; `writes(at)` says which of the sums are written.
/// `loaded`: `weights` are those of the thread's first chunks; they take registers while y is read.
template <bool loaded, class Writes>
__device__ inline void quantise_row(const MatvecInput& input, int t, const RowChunks& chunks, NormWeights weights,
                                    float* scratch, const Writes& writes, const TokenImage& to) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const float* row = input.x + t * input.x_stride;
  const bool there = t < input.tokens;
  const bool sums = there && input.post_norm.y != nullptr;
  float values[quantise_batch][8];
  const auto load = [&](const float* from, int first, float(&into)[quantise_batch][8]) {
#pragma unroll
    for (int b = 0; b < quantise_batch; ++b) {
      if (const int at = first + b * matvec_threads; there && 8 * at < input.k) {
        load_eight(input, from, at, into[b]);
      } else {
#pragma unroll
        for (float& value : into[b]) {
          value = 0.0f;
        }
      }
    }
  };
  int first = chunks.begin + thread;
  load(row, first, values);
  float factor = 0.0f;
  if (sums) {  // while x is loaded
    const float squares = post_norm_squares(input, t);
    if (lane == 0) {
      scratch[thread / 32] = squares;
    }
    named_barrier<1, matvec_threads>();
    factor = post_norm_factor(input, scratch);
  }
  float squares = 0.0f;
  while (first < chunks.row_end) {
    if (sums) {
      if constexpr (!loaded) {
        weights.load_post(input, first);
      }
      float y[quantise_batch][8];
      load(input.post_norm.y + t * input.post_norm.y_stride, first, y);  // usually from the first-level cache
#pragma unroll
      for (int b = 0; b < quantise_batch; ++b) {
        if (const int at = first + b * matvec_threads; 8 * at < input.k) {
          add_post_norm(input.post_norm, factor, y[b], weights.post[b], values[b]);
          if (writes(at)) {
            store_sums_of_row(input, t, at, values[b]);
          }
        }
      }
    }
    if constexpr (!loaded) {
      weights.load_norm(input, first);
    }
#pragma unroll
    for (int b = 0; b < quantise_batch; ++b) {
      const int at = first + b * matvec_threads;
      if (input.norm_weight != nullptr && there && 8 * at < input.k) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          squares = fmaf(values[b][i], values[b][i], squares);
          values[b][i] *= weights.norm[b][i];
        }
      }
      if (at >= chunks.begin && at < chunks.end) {
        quantise<false>(values[b], lane, to.codes + at / 4 * 64 + at % 4 * 8, to.info + at / 4 * 8);
      }
    }
    first += quantise_batch * matvec_threads;
    if (first < chunks.row_end) {
      load(row, first, values);
      if constexpr (loaded) {
        weights.load(input, first);
      }
    }
  }
  if (input.norm_weight != nullptr && chunks.begin == 0) {
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
