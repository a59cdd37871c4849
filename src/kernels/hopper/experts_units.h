#pragma once

// A unit, 256 columns of 16 rows, times activations on the tensor core: for products of few tokens with their experts.
//
// Codes are multiplied as LaneWeights::numbers() leaves them raw: a block's sum begins with what their offsets add to it,
// taken off, and the block's scale multiplies it, in float; a block is 32 columns, of Q6_K the 16 that share a scale.
// Activations of a unit are multiplied with a power of two that brings the largest to 2^13, those of high nibbles with a
// sixteenth of it.
//
// The order of a row's sum: block b of a unit (b < 8; of Q6_K, b < 16, those of its second half behind the first's) is added
// to partial sum b / 2 % 4, a pair of blocks together; the four are added up at the end of a run as (0 + 1) + (2 + 3).

#include "kernels/hopper/matmul_dequantize.h"

namespace rocmforge::hopper {

/// Powers of two for activations of a unit whose largest has these bits.
struct UnitScale {
  float to_half;
  float back;

  __device__ explicit UnitScale(std::uint32_t most_bits) {
    const std::uint32_t exponent = min(max(most_bits >> 23, 14u), 254u);
    to_half = __uint_as_float((267u - exponent) << 23);
    back = __uint_as_float((exponent - 13u) << 23);
  }
};

__device__ inline std::uint32_t largest_bits(const float (&values)[8]) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    most = fmaxf(most, fabsf(values[i]));
  }
  return __float_as_uint(most);  // floats from 0 on are in the order of their bits
}

/// Eight activations times `factor`, those of step 1 also times `second_share`, in the order of activation_element.
__device__ inline void pack_eight(const float (&values)[8], float factor, float second_share, std::uint32_t (&words)[4]) {
  const float second = factor * second_share;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int element = i / 2 * 4 + i % 2;
    const float by = i < 2 ? factor : second;
    words[i] = pack<half>(values[element] * by, values[element + 2] * by);
  }
}

/// Columns [at, at + 8) of a row, zeros from k on.
__device__ inline void load_eight(const float* row, int at, int k, bool aligned, float (&values)[8]) {
  if (aligned && at + 8 <= k) {
    const float4 low = *reinterpret_cast<const float4*>(row + at);
    const float4 high = *reinterpret_cast<const float4*>(row + at + 4);
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = at + i < k ? row[at + i] : 0.0f;
  }
}

/// Of the blocks of columns 2 (lane % 4) and the next of B: what a sum of their products begins with, which takes off what
/// the codes' offsets add to it, and the sum of the activations.
struct BlockSums {
  float start[2];
  float all[2];

  __device__ BlockSums(const UnitOffsets& offsets, const std::uint32_t (&b)[4]) {
    constexpr std::uint32_t ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
    float first[4] = {};
    float second[4] = {};
    multiply<half>(first, ones, b[0], b[1]);
    multiply<half>(second, ones, b[2], b[3]);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      start[j] = fmaf(-offsets.second, second[j], -offsets.first * first[j]);
      all[j] = fmaf(1.0f / offsets.second_share, second[j], first[j]);
    }
  }
};

/// Operand B of a group of Q6_K: its columns are the halves of the group's blocks. `b`: this lane's activations of the unit,
/// 8 lane and on.
__device__ inline void half_columns(const std::uint32_t (&b)[4], int group, int lane, std::uint32_t (&columns)[4]) {
  const bool own = lane % 4 / 2 == lane / 4 % 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    columns[i] = __shfl_sync(0xffffffffu, b[i], group * 16 + lane / 8 * 4 + lane % 4);
    columns[i] = own ? columns[i] : 0;
  }
}

template <WeightFormat format>
struct Unit {
  using Weights = LaneWeights<format>;
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr int records = expert_unit_columns / layout.elems;
  static constexpr int groups = expert_unit_columns / weight_group_elems;
  static constexpr bool half_blocks = unit_half_blocks(format);
  static constexpr bool is_float = format == WeightFormat::mxfp4;
  __device__ static constexpr UnitOffsets offsets() { return unit_offsets(format); }
  static constexpr float factor = is_float ? 16384.0f : 1.0f;  ///< of all sums

  /// Address of a unit's group: records of 128 columns are a group each.
  __device__ static std::uint32_t record_of(std::uint32_t unit, int group) {
    return records == 2 ? unit + static_cast<std::uint32_t>(group * layout.record_bytes) : unit;
  }
  /// Codes of a group: a lane's lie side by side with its neighbours'.
  __device__ static void load_codes(std::uint32_t unit, int group, int lane, Weights& weights) {
    const std::uint32_t record = record_of(unit, group);
    const std::uint32_t at = records == 2 ? 0 : static_cast<std::uint32_t>(group);
    const auto own = static_cast<std::uint32_t>(lane);
#pragma unroll
    for (std::uint32_t half = 0; half < 2; ++half) {
#pragma unroll
      for (std::uint32_t quad = 0; quad < Weights::code_quads; ++quad) {
        load_shared(weights.codes[half][quad], record + 1024 * (at * Weights::code_quads + quad) + 512 * half + 16 * own);
      }
      if constexpr (Weights::high_words == 1) {
        weights.high[half][0] = load_shared(record + layout.high_offset + 256 * at + 128 * half + 4 * own);
      } else if constexpr (Weights::high_words == 2) {
        load_shared(weights.high[half], record + layout.high_offset + 512 * at + 256 * half + 8 * own);
      }
    }
  }
  /// Operand A of the two steps of 16 along k of block s of a group.
  template <int s>
  __device__ static void operand_a(const Weights& weights, std::uint32_t (&a)[2][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t q[2][2];
      weights.template numbers<s, true>(half, q);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i / 2][half + 2 * (i % 2)] = q[i / 2][i % 2];
      }
    }
  }

  /// Adds a block's part of a row to `sum`: `product` of its codes less their offset, `all` activations added up.
  __device__ static float add_block(float sum, float product, float all, float scale, float minimum) {
    sum = fmaf(scale, product, sum);
    return Weights::has_minimum ? fmaf(-minimum, all, sum) : sum;
  }

  /// Of a row: scales (and minima) of the two blocks of pair `pair` of a unit; of Q6_K, of group `group`.
  __device__ static void load_scales(std::uint32_t unit, int group, int row, int pair, float (&scale)[2],
                                     float (&minimum)[2]) {
    const std::uint32_t record = record_of(unit, pair / 2);
    const std::uint32_t from = record + layout.scale_offset;
    minimum[0] = minimum[1] = 0.0f;
    if constexpr (Weights::has_minimum) {
      const std::uint32_t bytes = load_shared(from + 16 * row + 4 * pair);
      const std::uint32_t super = load_shared(record + layout.super_offset + 4 * row);
      scale[0] = byte_times(bytes, 0, low_half(super), 0.0f);
      scale[1] = byte_times(bytes, 1, low_half(super), 0.0f);
      minimum[0] = byte_times(bytes, 2, high_half(super), 0.0f);
      minimum[1] = byte_times(bytes, 3, high_half(super), 0.0f);
    } else if constexpr (half_blocks) {
      const std::uint32_t bytes = load_shared(from + 16 * row + 4 * pair) ^ 0x80808080u;
      const float super = low_half(load_shared_16(record + layout.super_offset + 2 * row));
      scale[0] = byte_times(bytes, 2 * group, super, 128.0f);
      scale[1] = byte_times(bytes, 2 * group + 1, super, 128.0f);
    } else if constexpr (is_float) {
      const std::uint32_t exponents = load_shared_16(from + 4 * row + 2 * (pair % 2));
      scale[0] = __uint_as_float(exponents << 23 & 0x7f800000u);
      scale[1] = __uint_as_float(exponents << 15 & 0x7f800000u);
    } else {
      const std::uint32_t found = load_shared(from + 8 * row + 4 * (pair % 2));
      scale[0] = low_half(found);
      scale[1] = high_half(found);
    }
  }

 private:
  /// A byte less `offset`, times `factor`. In the mantissa of 2^23 a byte is a number without a conversion.
  __device__ static float byte_times(std::uint32_t bytes, int i, float factor, float offset) {
    const float number = __uint_as_float(__byte_perm(bytes, 0x4b000000u, 0x7440u + static_cast<std::uint32_t>(i)));
    return fmaf(number, factor, -(8388608.0f + offset) * factor);
  }
};

}  // namespace rocmforge::hopper
