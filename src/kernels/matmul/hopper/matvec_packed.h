#pragma once

// 16 rows x 256 columns of quantised weights times up to 8 tokens, by one warp: see matvec_packed.cu.

#include "kernels/matmul/hopper/matmul_args.h"
#include "kernels/tile/hopper/mma.h"
#include "kernels/tile/hopper/pairs.h"

namespace rocmforge::hopper {

constexpr bool is_k_format(WeightFormat format) { return weight_traits(format).scales == WeightScales::code_and_minimum; }

/// Pairs of blocks (2 p and 2 p + 1 of a step) whose sums a lane holds for a token.
constexpr int pairs_of(int tokens) { return tokens < 4 ? tokens : 4; }
/// Tokens that the columns of one operand B hold: each token has two, of the upper and the lower 8 bits.
constexpr int tokens_of_operand(int tokens) { return tokens < 4 ? tokens : 4; }

/// Pair `a` of a lane.
template <int tokens>
__device__ inline int pair_index(int a, int c) {
  if constexpr (tokens == 1) {
    return c;
  } else if constexpr (tokens == 2) {
    return 2 * a + (c & 1);
  } else {
    return a;
  }
}

/// The activations in shared memory: codes of 16 bits, [tokens][blocks][upper and lower 8 bits][32], scales and sums of the
/// blocks.
struct Activations {
  const std::uint8_t* codes;
  const std::uint8_t* info;
  int token_bytes;
  int token_info_bytes;
};

/// A block's scale, and the sum of its elements after rounding.
struct BlockInfo {
  float scale;
  float sum;
};

// One instruction each; the compiler takes two when two operands are constants.
__device__ inline std::uint32_t and_xor(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
__device__ inline std::uint32_t and_or(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

/// A lane's part of a step, as it lies in memory.
template <WeightFormat format, int tokens>
struct RawStep {
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr bool wide = weight_traits(format).code_bits == 8;
  static constexpr bool one_high = weight_traits(format).high_bits == 1;
  static constexpr bool two_high = weight_traits(format).high_bits == 2;
  static constexpr bool has_super = layout.elems == 256;
  /// A lane that has all pairs of MXFP4 reads the four scales of a row and a group as one word.
  static constexpr bool of_groups = format == WeightFormat::mxfp4 && tokens >= 4;
  /// Words of scales that a lane reads for a row.
  static constexpr int words = of_groups ? 2 : two_high ? (tokens == 1 ? 2 : 4) : pairs_of(tokens);

  /// Scales are read from the slot when they are needed: with many tokens there are no registers for them.
  static constexpr bool keeps_slot = tokens == 8 && !of_groups;

  uint4 codes[2][wide ? 2 : 1][2];  ///< [group][pair of blocks][row]
  std::uint32_t high[2][two_high ? 2 : 1][2];

  /// `groups`: the number of groups in the record in `slot`; codes of a missing group have no meaning.
  __device__ inline void load(const std::uint8_t* slot, int groups, int lane) {
    constexpr int group_bytes = layout.elems == 256 ? 1024 : layout.record_bytes;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int p = 0; p < (wide ? 2 : 1); ++p) {
          codes[q][p][h] = *reinterpret_cast<const uint4*>(slot + q * group_bytes + p * 1024 + h * 512 + lane * 16);
        }
        if constexpr (one_high) {
          const int high_bytes = layout.elems == 256 ? 256 : layout.record_bytes;
          high[q][0][h] =
              *reinterpret_cast<const std::uint32_t*>(slot + layout.high_offset + q * high_bytes + h * 128 + lane * 4);
        }
        if constexpr (two_high) {
          const uint2 words = *reinterpret_cast<const uint2*>(slot + layout.high_offset + q * 512 + h * 256 + lane * 8);
          high[q][0][h] = words.x;
          high[q][1][h] = words.y;
        }
      }
    }
    slot_ = slot;
    second_ = groups > 1 ? layout.record_bytes : 0;
    lane_ = lane;
    if constexpr (!keeps_slot) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int a = 0; a < words; ++a) {
          scales_[a][h] = read_scales(a, h);
        }
        super_[h] = read_super(h);
      }
    }
  }

  /// Scales (and minima) of row `h` of this lane and pair `a`, from byte first_scale(a) on; Q6_K: of word a, or of words
  /// c / 2 and 2 + c / 2 for one token.
  __device__ inline std::uint32_t scales(int a, int h) const {
    const int word = of_groups ? a >> 1 : a;
    if constexpr (keeps_slot) {
      return read_scales(word, h);
    } else {
      return scales_[word][h];
    }
  }
  /// The byte of scales(a, h) that belongs to the first block of the pair.
  static constexpr int first_scale(int a) { return of_groups ? 2 * (a & 1) : 0; }
  /// The super-block's scales of row `h`.
  __device__ inline std::uint32_t super(int h) const {
    if constexpr (keeps_slot) {
      return read_super(h);
    } else {
      return super_[h];
    }
  }

  /// The operand A of block `s` of 8: codes as they are (Q4_K, Q5_K), or signed bytes that, times operand_scale(), are the
  /// values: the top bit of code - offset is the inverted top bit of the code. MXFP4 has mxfp4_operands.
  __device__ inline void operand(int s, std::uint32_t (&a)[4]) const {
    const int q = s >> 2;
    const int of_group = s & 3;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (wide) {
        const uint4& four = codes[q][of_group >> 1][h];
        a[h] = (of_group & 1) != 0 ? four.z : four.x;
        a[2 + h] = (of_group & 1) != 0 ? four.w : four.y;
      } else {
        const uint4& four = codes[q][0][h];
        const std::uint32_t word = of_group == 0 ? four.x : of_group == 1 ? four.y : of_group == 2 ? four.z : four.w;
        if constexpr (format == WeightFormat::q4_0) {
          a[h] = and_xor(word << 4, 0xf0f0f0f0u, 0x80808080u);
          a[2 + h] = and_xor(word, 0xf0f0f0f0u, 0x80808080u);
        } else if constexpr (format == WeightFormat::q5_0) {
          const std::uint32_t bits = high[q][0][h];
          a[h] = and_or(word << 3, 0x78787878u, and_xor(to_bit<7>(bits, 2 * of_group), 0x80808080u, 0x80808080u));
          a[2 + h] = and_or(word >> 1, 0x78787878u, and_xor(to_bit<7>(bits, 2 * of_group + 1), 0x80808080u, 0x80808080u));
        } else if constexpr (format == WeightFormat::q6_k) {
          const std::uint32_t bits = high[q][of_group >> 1][h];
          const int place = 4 * (of_group & 1);
          a[h] = and_or(word << 2, 0x3c3c3c3cu, and_xor(to_bit<6>(bits, place), 0xc0c0c0c0u, 0x80808080u));
          a[2 + h] = and_or(word >> 2, 0x3c3c3c3cu, and_xor(to_bit<6>(bits, place + 2), 0xc0c0c0c0u, 0x80808080u));
        } else {
          a[h] = word & 0x0f0f0f0fu;
          a[2 + h] = word >> 4 & 0x0f0f0f0fu;
          if constexpr (one_high) {
            a[h] |= to_bit<4>(high[q][0][h], 2 * of_group) & 0x10101010u;
            a[2 + h] |= to_bit<4>(high[q][0][h], 2 * of_group + 1) & 0x10101010u;
          }
        }
      }
    }
  }

  /// The operands A of block `s` of MXFP4, whose sum is the doubled values less 1. Bytes are in the order of the nibbles. A
  /// look-up whose selector has bit 3 gives a byte's sign in every bit: zero from a table of positive bytes, -1 from one of
  /// negative bytes. Codes of negative values have bit 3 set; for other values the inverted codes have it set.
  __device__ inline void mxfp4_operands(int s, std::uint32_t (&positive)[4], std::uint32_t (&negative)[4]) const {
    const int of_group = s & 3;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4& four = codes[s >> 2][0][h];
      const std::uint32_t word = of_group == 0 ? four.x : of_group == 1 ? four.y : of_group == 2 ? four.z : four.w;
      const std::uint32_t others = word ^ 0x88888888u;
      positive[h] = positive_values(word);
      positive[2 + h] = positive_values(word >> 16);
      negative[h] = negative_values(others);
      negative[2 + h] = negative_values(others >> 16);
    }
  }

 private:
  __device__ inline std::uint32_t read_scales(int a, int h) const {
    const int row = 8 * h + (lane_ >> 2);
    const int c = lane_ & 3;
    if constexpr (two_high) {
      const int word = tokens == 1 ? 2 * a + (c >> 1) : a;
      return *reinterpret_cast<const std::uint32_t*>(slot_ + layout.scale_offset + row * 16 + word * 4);
    }
    // A missing group takes the scales of the first one: its activations are zeros.
    if constexpr (of_groups) {
      return *reinterpret_cast<const std::uint32_t*>(slot_ + a * second_ + layout.scale_offset + row * 4);
    }
    const int p = pair_index<tokens>(a, c);
    if constexpr (has_super) {
      return *reinterpret_cast<const std::uint32_t*>(slot_ + layout.scale_offset + row * 16 + p * 4);
    }
    const std::uint8_t* of_record = slot_ + (p >> 1) * second_ + layout.scale_offset;
    if constexpr (format == WeightFormat::mxfp4) {
      return *reinterpret_cast<const std::uint16_t*>(of_record + row * 4 + (p & 1) * 2);
    }
    return *reinterpret_cast<const std::uint32_t*>(of_record + row * 8 + (p & 1) * 4);
  }
  __device__ inline std::uint32_t read_super(int h) const {
    const int row = 8 * h + (lane_ >> 2);
    if constexpr (is_k_format(format)) {
      return *reinterpret_cast<const std::uint32_t*>(slot_ + layout.super_offset + row * 4);
    }
    return has_super ? *reinterpret_cast<const std::uint16_t*>(slot_ + layout.super_offset + row * 2) : 0;
  }
  /// Moves bit `from` of every byte to bit `to`; the other bits are undefined.
  template <int to>
  __device__ static std::uint32_t to_bit(std::uint32_t word, int from) {
    return from <= to ? word << (to - from) : word >> (from - to);
  }
  /// mxfp4_values of codes 0 to 7, and of codes 8 to 15 less 1.
  __device__ static std::uint32_t positive_values(std::uint32_t selectors) {
    return select_bytes(0x03020100u, 0x0c080604u, selectors);
  }
  __device__ static std::uint32_t negative_values(std::uint32_t selectors) {
    return select_bytes(0xfcfdfeffu, 0xf3f7f9fbu, selectors);
  }
  __device__ static std::uint32_t select_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t selectors) {
    std::uint32_t found;  // __byte_perm leaves bit 3 of a selector out
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(found) : "r"(low), "r"(high), "r"(selectors));
    return found;
  }

  const std::uint8_t* slot_;
  int second_;  ///< from the first group's record to the second's, 0 where there is none
  int lane_;
  std::uint32_t scales_[keeps_slot ? 1 : words][2];  ///< [word][row]
  std::uint32_t super_[2];
};

/// Whether the operand A holds signed bytes.
constexpr bool has_signed_operand(WeightFormat format) { return !is_k_format(format); }
/// The factor for sums of products with the operand A; MXFP4's values are doubled.
constexpr float operand_scale(WeightFormat format) {
  return format == WeightFormat::q4_0    ? 1.0f / 16
         : format == WeightFormat::q5_0  ? 1.0f / 8
         : format == WeightFormat::q6_k  ? 1.0f / 4
         : format == WeightFormat::mxfp4 ? 1.0f / 2
                                         : 1.0f;
}

/// 2^(exponent - 127) of byte `byte` of a word. An exponent of 0 gives zero in place of 2^-127: such values vanish
/// beside all others.
__device__ inline float power_of_two(std::uint32_t exponents, int byte) {
  return __uint_as_float((byte < 3 ? exponents << (23 - 8 * byte) : exponents >> 1) & 0x7f800000u);
}

/// sum += the sum over two blocks of a row and a token; `dots` are the products of their codes. `first_scale`: the byte of
/// `scales` that belongs to the first block, of MXFP4.
template <WeightFormat format>
__device__ inline float add_pair(float sum, int dot0, int dot1, const BlockInfo& x0, const BlockInfo& x1,
                                 std::uint32_t scales, int first_scale, std::uint32_t super) {
  if constexpr (is_k_format(format)) {
    const auto scaled0 = static_cast<float>(dot0 * static_cast<int>(scales & 255));  // below 31 * 32 * 2^15 * 63 < 2^31
    const auto scaled1 = static_cast<float>(dot1 * static_cast<int>(scales >> 8 & 255));
    const auto minimum0 = static_cast<float>(scales >> 16 & 255);
    const auto minimum1 = static_cast<float>(scales >> 24);
    const float product = fmaf(x1.scale, scaled1, x0.scale * scaled0);
    const float minimum = fmaf(x1.sum, minimum1, x0.sum * minimum0);
    return fmaf(-high_half(super), minimum, fmaf(low_half(super), product, sum));
  } else if constexpr (format == WeightFormat::mxfp4) {
    // The operands lack 1 in each element. Below 13 * 32 * 2^15 < 2^24: exact as floats.
    const float product0 = fmaf(x0.scale, static_cast<float>(dot0), x0.sum);
    const float product1 = fmaf(x1.scale, static_cast<float>(dot1), x1.sum);
    sum = fmaf(power_of_two(scales, first_scale), product0, sum);
    return fmaf(power_of_two(scales, first_scale + 1), product1, sum);
  } else {
    sum = fmaf(low_half(scales), x0.scale * static_cast<float>(dot0), sum);
    return fmaf(high_half(scales), x1.scale * static_cast<float>(dot1), sum);
  }
}

__device__ inline BlockInfo load_info(const Activations& x, int token, int block) {
  const auto pair = *reinterpret_cast<const float2*>(x.info + token * x.token_info_bytes + block * 8);
  return {pair.x, pair.y};
}

/// The operand B of 32 columns: 8 codes of a token's block, their upper (part 0) or lower bits. `ordered`: they are in the
/// format's order, not one after another.
template <WeightFormat format, bool ordered>
__device__ inline uint2 load_codes(const Activations& x, int token, int step, int block, int part, int c) {
  uint2 codes =
      *reinterpret_cast<const uint2*>(x.codes + token * x.token_bytes + (step * 8 + block) * 64 + part * 32 + c * 8);
  if constexpr (format == WeightFormat::mxfp4 && !ordered) {
    codes = in_order_of_nibbles(codes);
  }
  return codes;
}

/// Adds a step to a lane's sums, [2 * tokens]: [group of 4 tokens][pair][row]. The lane's token of a group is that of its
/// columns 2 c and 2 c + 1 of C. The 8 columns of B are upper and lower bits of up to 4 tokens, and with fewer tokens of
/// different blocks: zeros elsewhere keep a column to its block.
template <bool ordered, WeightFormat format, int tokens>
__device__ inline void add_step(const RawStep<format, tokens>& raw, const Activations& x, int step, int lane,
                                float (&sums)[2 * tokens]) {
  constexpr bool signed_a = has_signed_operand(format);
  constexpr int of_operand = tokens_of_operand(tokens);
  constexpr int groups = tokens / of_operand;
  constexpr int columns = 8 / of_operand;  // of a token
  constexpr int blocks = columns / 2;      // of a token in an operand
  constexpr int pairs = pairs_of(tokens);
  const int g = lane >> 2;
  const int c = lane & 3;
  const int own = blocks == 1 ? 0 : g % columns >> 1;
#pragma unroll
  for (int a = 0; a < pairs; ++a) {
    int dots[groups][2][4] = {};
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      uint2 b[groups];
#pragma unroll
      for (int n = 0; n < groups; ++n) {
        b[n] = load_codes<format, ordered>(x, n * of_operand + g / columns, step, 2 * (a * blocks + own) + e, g & 1, c);
      }
#pragma unroll
      for (int i = 0; i < blocks; ++i) {
        const auto multiply = [&](const std::uint32_t(&operand)[4]) {
#pragma unroll
          for (int n = 0; n < groups; ++n) {
            multiply_bytes<signed_a>(dots[n][e], operand, i == own ? b[n].x : 0, i == own ? b[n].y : 0);
          }
        };
        std::uint32_t operand[4];
        if constexpr (format == WeightFormat::mxfp4) {
          std::uint32_t negative[4];
          raw.mxfp4_operands(2 * (a * blocks + i) + e, operand, negative);
          multiply(negative);
        } else {
          raw.operand(2 * (a * blocks + i) + e, operand);
        }
        multiply(operand);
      }
    }
    const int block = step * 8 + 2 * pair_index<tokens>(a, c);
    const std::uint32_t scales[2] = {raw.scales(a, 0), raw.scales(a, 1)};
#pragma unroll
    for (int n = 0; n < groups; ++n) {
      const int token = n * of_operand + 2 * c / columns;
      const BlockInfo x0 = load_info(x, token, block);
      const BlockInfo x1 = load_info(x, token, block + 1);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float& sum = sums[(n * pairs + a) * 2 + h];
        sum = add_pair<format>(sum, (dots[n][0][2 * h] << 8) + dots[n][0][2 * h + 1],
                               (dots[n][1][2 * h] << 8) + dots[n][1][2 * h + 1], x0, x1, scales[h], raw.first_scale(a),
                               raw.super(h));
      }
    }
  }
}

/// The same for Q6_K, whose scales belong to 16 columns. In place of pairs there are classes 2 j + u: the u-th 16 columns of
/// blocks j, 2 + j, 4 + j and 6 + j.
template <bool ordered, int tokens>
__device__ inline void add_step(const RawStep<WeightFormat::q6_k, tokens>& raw, const Activations& x, int step, int lane,
                                float (&sums)[2 * tokens]) {
  constexpr int of_operand = tokens_of_operand(tokens);
  constexpr int groups = tokens / of_operand;
  constexpr int columns = 8 / of_operand;
  constexpr int js = tokens == 1 ? 1 : 2;  // a lane has this many of each; other lanes have the rest
  constexpr int us = tokens <= 2 ? 1 : 2;
  const int g = lane >> 2;
  const int c = lane & 3;
#pragma unroll
  for (int j = 0; j < js; ++j) {
    float products[us][groups][2] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int dots[us][groups][4] = {};
      const int own = js == 1 ? g >> 2 : 0;
      uint2 b[groups];
#pragma unroll
      for (int n = 0; n < groups; ++n) {
        b[n] = load_codes<WeightFormat::q6_k, ordered>(x, n * of_operand + g / columns, step, 2 * i + (js == 1 ? own : j),
                                                       g & 1, c);
      }
#pragma unroll
      for (int k = 0; k < 3 - js; ++k) {
        std::uint32_t operand[4];
        raw.operand(2 * i + (js == 1 ? k : j), operand);
#pragma unroll
        for (int u = 0; u < us; ++u) {
          const bool used = own == k % 2 && c >> 1 == (us == 1 ? g >> 1 & 1 : u);
#pragma unroll
          for (int n = 0; n < groups; ++n) {
            multiply_bytes<true>(dots[u][n], operand, used ? b[n].x : 0, used ? b[n].y : 0);
          }
        }
      }
      const int block = 2 * i + (js == 1 ? c >> 1 : j);
#pragma unroll
      for (int n = 0; n < groups; ++n) {
        const float scale = load_info(x, n * of_operand + 2 * c / columns, step * 8 + block).scale;
#pragma unroll
        for (int u = 0; u < us; ++u) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const std::uint32_t word = raw.scales(js == 1 ? i & 1 : 2 * (i & 1) + j, h);
            const int shift = 8 * (2 * (i >> 1) + (us == 1 ? c & 1 : u));
            const auto factor = static_cast<float>(static_cast<std::int8_t>(word >> shift));
            const float dot = scale * static_cast<float>((dots[u][n][2 * h] << 8) + dots[u][n][2 * h + 1]);
            products[u][n][h] = fmaf(factor, dot, products[u][n][h]);
          }
        }
      }
    }
#pragma unroll
    for (int n = 0; n < groups; ++n) {
#pragma unroll
      for (int u = 0; u < us; ++u) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& sum = sums[(n * pairs_of(tokens) + j * us + u) * 2 + h];
          sum = fmaf(low_half(raw.super(h)), products[u][n][h], sum);
        }
      }
    }
  }
}

/// A row's sum for token `n` of a lane's groups: always (p0 + p1) + (p2 + p3). Lanes that share a token's pairs have the
/// same.
template <int tokens>
__device__ inline float row_sum(const float (&sums)[2 * tokens], int n, int h) {
  constexpr int pairs = pairs_of(tokens);
  const auto of_pair = [&](int p) { return sums[(n * pairs + p) * 2 + h]; };
  const auto with_neighbour = [&](float sum, int distance) { return sum + __shfl_xor_sync(0xffffffffu, sum, distance); };
  if constexpr (tokens == 1) {
    return with_neighbour(with_neighbour(of_pair(0), 1), 2);
  } else if constexpr (tokens == 2) {
    const float first = with_neighbour(of_pair(0), 1);
    return first + with_neighbour(of_pair(1), 1);
  } else {
    return (of_pair(0) + of_pair(1)) + (of_pair(2) + of_pair(3));
  }
}

/// Adds up a lane's sums and writes those of its rows, times the factors of its tokens, to `to` [tokens][16 rows].
template <int tokens>
__device__ inline void store_sums(const float (&sums)[2 * tokens],
                                  const float (&factors)[tokens / tokens_of_operand(tokens)], int lane, float* to) {
  constexpr int of_operand = tokens_of_operand(tokens);
  const int g = lane >> 2;
  const int c = lane & 3;
#pragma unroll
  for (int n = 0; n < tokens / of_operand; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = row_sum<tokens>(sums, n, h);
      if (c % (4 / of_operand) == 0) {
        to[weight_tile_rows * (of_operand * n + c * of_operand / 4) + 8 * h + g] = sum * factors[n];
      }
    }
  }
}

}  // namespace rocmforge::hopper
