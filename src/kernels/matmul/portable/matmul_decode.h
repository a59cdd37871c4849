#pragma once

// Weights for the matrix products, as strips of 16 consecutive elements that share a scale.
//
// A strip's number in its row is element / 16. WeightStrips<Block> knows one format of tensor/quant:
//   parts, unit_of, part_of, strip_of   a unit is the `parts` strips that share bytes (the low and the high nibbles of 16
//                                     bytes): strip_of(unit_of(strip), part_of(strip)) == strip
//   load(row, unit, k)                the bytes of a unit, untouched, so that loads can run ahead of their use
//   affine(raw, part)                 element = scale * value + offset; without `has_offset` the offset is 0
//   values(raw, part, w, out)         values of elements 4 w to 4 w + 3 of the strip
// The block structs give the places of fields and how codes share bytes. Scales are taken out of the loaded words, so the
// bits of scales are repeated here. A row starts at an address that is a multiple of the format's block alignment. Only
// plain types need k, because their rows may have any length: elements from k on are 0.

#include <cstddef>

#include "kernels/formats/formats.h"
#include "kernels/matmul/portable/matmul_args.h"
#include "kernels/tile/matmul_bytes.h"

namespace rocmforge::gpu {

inline constexpr int strip_elems = 16;

struct Affine {
  float scale;
  float offset;
};

template <class Block>
struct WeightStrips;

/// In place of a block: one of CodedFormats (matmul_args.h), which the launch names.
struct BlockCoded {};

/// WeightStrips<Block>::load of one unit of each of `rows` rows.
template <class Strips, int rows, class Args>
__device__ __forceinline__ void load_units(const Args& args, const std::uint8_t* const (&from)[rows], int unit,
                                           typename Strips::Raw (&raw)[rows]) {
  if constexpr (requires { Strips::load_as(args.dtype, from, unit, raw); }) {
    Strips::load_as(args.dtype, from, unit, raw);
  } else {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      raw[r] = Strips::load(from[r], unit, args.k);
    }
  }
}

// ---- plain types ----

/// One strip is a unit.
struct SingleStrips {
  static constexpr int parts = 1;
  static constexpr bool has_offset = false;
  __device__ static int unit_of(int strip_index) { return strip_index; }
  __device__ static int part_of(int) { return 0; }
  __device__ static int strip_of(int unit, int) { return unit; }
};

template <class Storage>
struct PlainStrips : SingleStrips {
  static constexpr int words = strip_elems * static_cast<int>(sizeof(Storage)) / 4;
  struct Raw {
    std::uint32_t words[PlainStrips::words];
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int k) {
    Raw raw;
    const int first = strip_elems * unit;
    if (first + strip_elems <= k && k * static_cast<int>(sizeof(Storage)) % 16 == 0) {
      load_words<words, 16>(row + first * static_cast<int>(sizeof(Storage)), raw.words);
    } else {
      load_tail(row, first, k, raw);
    }
    return raw;
  }
  __device__ static void load_tail(const std::uint8_t* row, int first, int k, Raw& raw) {
    if constexpr (sizeof(Storage) == 4) {
#pragma unroll
      for (int i = 0; i < words; ++i) {
        raw.words[i] = first + i < k ? reinterpret_cast<const std::uint32_t*>(row)[first + i] : 0;
      }
    } else {
      const auto element = [&](int i) -> std::uint32_t {
        return i < k ? reinterpret_cast<const std::uint16_t*>(row)[i] : 0;
      };
#pragma unroll
      for (int i = 0; i < words; ++i) {
        raw.words[i] = element(first + 2 * i) | element(first + 2 * i + 1) << 16;
      }
    }
  }
  __device__ static Affine affine(const Raw&, int) { return {1.0f, 0.0f}; }
  __device__ static void values(const Raw& raw, int, int w, float* out) {
    if constexpr (sizeof(Storage) == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        out[i] = __builtin_bit_cast(float, raw.words[4 * w + i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Storage element;
        element.bits = static_cast<std::uint16_t>(raw.words[2 * w + i / 2] >> 16 * (i % 2));
        out[i] = to_float(element);
      }
    }
  }
};

template <>
struct WeightStrips<BlockF32> : PlainStrips<float> {};
template <>
struct WeightStrips<BlockF16> : PlainStrips<half> {};
template <>
struct WeightStrips<BlockBF16> : PlainStrips<bfloat16> {};

// ---- blocks ----

/// The strips of a block in pairs that share bytes of `quants`. The number of neighbouring strips follows from the span of
/// the plane (tensor/quant/block.h); as many again lie in the next bits of the same bytes.
template <class Block>
struct PairedStrips {
  static constexpr int parts = 2;
  __device__ static int unit_of(int strip_index) { return (strip_index >> 1 & -side) + (strip_index & (side - 1)); }
  __device__ static int part_of(int strip_index) { return (strip_index & side) != 0 ? 1 : 0; }
  __device__ static int strip_of(int unit, int part) { return 2 * (unit & -side) + side * part + (unit & (side - 1)); }

 protected:
  static constexpr int side = static_cast<int>(Block::Low::span) / strip_elems;  ///< 1, 2 or 4
  static constexpr int unit_shift = Block::elems == 256 ? 3 : 0;                 ///< log2 of the units of a block
  static constexpr int size = static_cast<int>(sizeof(Block));
  static constexpr int alignment = size % 16 == 0 ? 16 : size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;

  __device__ static const std::uint8_t* block(const std::uint8_t* row, int unit) {
    return row + (unit >> unit_shift) * size;
  }
  /// The unit in its block.
  __device__ static int within(int unit) { return unit & ((1 << unit_shift) - 1); }
  /// The unit's 16 bytes of the low bits of codes, from the start of the block, and of the high ones.
  __device__ static int low_byte(int unit) {
    return static_cast<int>(offsetof(Block, quants)) + byte_of<typename Block::Low>(unit);
  }
  __device__ static int high_byte(int unit) {
    return static_cast<int>(offsetof(Block, high_bits)) + byte_of<typename Block::High>(unit);
  }
  __device__ static std::uint32_t nibbles(std::uint32_t word, int part) { return word >> 4 * part & 0x0f0f0f0fu; }
  /// Of codes that four_codes converts.
  __device__ static Affine centred(float scale) { return {scale, -(Block::offset + code_bias) * scale}; }

 private:
  /// Plane::byte of the unit's first element: a unit is 32 elements, and those that share bytes follow one another.
  template <class Plane>
  __device__ static int byte_of(int unit) {
    constexpr unsigned sharing = Plane::span * 8 / Plane::bits / (strip_elems * parts);
    const auto own = static_cast<unsigned>(within(unit));
    return static_cast<int>(own / sharing * Plane::span + strip_elems * (own % (Plane::span / strip_elems)));
  }
};

/// One scale, 16 bytes of nibbles: Q4_0, IQ4_NL.
template <class Block>
struct ScaledNibbles : PairedStrips<Block> {
  using Base = PairedStrips<Block>;
  struct Raw {
    std::uint32_t quants[4];
    float scale;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<4, Base::alignment>(Base::block(row, unit) + Base::low_byte(unit), raw.quants);
    raw.scale = load_half(Base::block(row, unit) + offsetof(Block, scale));
    return raw;
  }
};

template <>
struct WeightStrips<BlockQ4_0> : ScaledNibbles<BlockQ4_0> {
  static constexpr bool has_offset = true;
  __device__ static Affine affine(const Raw& raw, int) { return centred(raw.scale); }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(nibbles(raw.quants[w], part), out);
  }
};

template <>
struct WeightStrips<BlockIQ4_NL> : ScaledNibbles<BlockIQ4_NL> {
  static constexpr bool has_offset = false;
  __device__ static Affine affine(const Raw& raw, int) { return {raw.scale, 0.0f}; }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    constexpr SignedTable table = make_signed_table(iq4_values);
    four_signed(look_up(table, nibbles(raw.quants[w], part)), out);
  }
};

/// Scale and minimum in the block's first word, then `high_words` of fifth bits, then the nibbles: Q4_1, Q5_1.
template <class Block, int high_words>
struct StripsWithMinimum : PairedStrips<Block> {
  static constexpr bool has_offset = true;
  static_assert(offsetof(Block, scale) == 0 && offsetof(Block, minimum) == 2);
  static_assert(offsetof(Block, quants) == 4 + 4 * high_words);
  using Base = PairedStrips<Block>;
  struct Raw {
    std::uint32_t words[5 + high_words];
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<5 + high_words, Base::alignment>(Base::block(row, unit), raw.words);
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) {
    const float scale = half_of_word(raw.words[0], 0);
    return {scale, fmaf(-code_bias, scale, half_of_word(raw.words[0], 1))};
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    std::uint32_t codes = Base::nibbles(raw.words[1 + high_words + w], part);
    if constexpr (high_words > 0) {
      codes |= spread_bits<4>(raw.words[1] >> (16 * part + 4 * w));
    }
    four_codes(codes, out);
  }
};
template <>
struct WeightStrips<BlockQ4_1> : StripsWithMinimum<BlockQ4_1, 0> {};
template <>
struct WeightStrips<BlockQ5_1> : StripsWithMinimum<BlockQ5_1, 1> {};

template <>
struct WeightStrips<BlockQ5_0> : PairedStrips<BlockQ5_0> {
  static constexpr bool has_offset = true;
  static_assert(offsetof(BlockQ5_0, quants) == offsetof(BlockQ5_0, high_bits) + 4);
  struct Raw {
    std::uint32_t words[5];  ///< fifth bits, quants
    float scale;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<5, alignment>(block(row, unit) + offsetof(BlockQ5_0, high_bits), raw.words);
    raw.scale = load_half(block(row, unit) + offsetof(BlockQ5_0, scale));
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) { return centred(raw.scale); }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(nibbles(raw.words[1 + w], part) | spread_bits<4>(raw.words[0] >> (16 * part + 4 * w)), out);
  }
};

template <>
struct WeightStrips<BlockQ8_0> : SingleStrips {
  struct Raw {
    std::uint32_t quants[4];
    float scale;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    const std::uint8_t* block = row + (unit >> 1) * static_cast<int>(sizeof(BlockQ8_0));
    load_words<4, 2>(block + offsetof(BlockQ8_0, quants) + strip_elems * (unit & 1), raw.quants);
    raw.scale = load_half(block + offsetof(BlockQ8_0, scale));
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) { return {raw.scale, 0.0f}; }
  __device__ static void values(const Raw& raw, int, int w, float* out) { four_signed(raw.quants[w], out); }
};

template <>
struct WeightStrips<BlockMXFP4> : PairedStrips<BlockMXFP4> {
  static constexpr bool has_offset = false;
  struct Raw {
    std::uint32_t quants[4];
    std::uint32_t exponent;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<4, alignment>(block(row, unit) + low_byte(unit), raw.quants);
    raw.exponent = block(row, unit)[offsetof(BlockMXFP4, exponent)];
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) {
    return {mxfp4_half_scale(static_cast<std::uint8_t>(raw.exponent)), 0.0f};
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    constexpr SignedTable table = make_signed_table(mxfp4_values);
    four_signed(look_up(table, nibbles(raw.quants[w], part)), out);
  }
};

/// Formats that share kernels. Their elements become signed bytes when they are loaded: the registers of a unit are those of
/// Q8_0.
template <>
struct WeightStrips<BlockCoded> : SingleStrips {
  struct Raw {
    std::uint32_t quants[4];
    float scale;
  };
  template <class Block>
  __device__ __forceinline__ static void read(const std::uint8_t* row, int unit, Raw& raw) {
    static_assert(Block::group % strip_elems == 0);
    constexpr int units = Block::elems / strip_elems;
    const Block& block = reinterpret_cast<const Block*>(row)[unit / units];
    const auto first = static_cast<unsigned>(unit % units * strip_elems);
#pragma unroll
    for (unsigned eight = 0; eight < 2; ++eight) {
      const EightBytes integers = read_integers(block, first + 8 * eight);
      raw.quants[2 * eight] = integers.words[0];
      raw.quants[2 * eight + 1] = integers.words[1];
    }
    raw.scale = integer_scale(block, first);
  }
  /// The format is tested once for all rows, so that their loads are issued together.
  template <int rows>
  __device__ __forceinline__ static void load_as(DType dtype, const std::uint8_t* const (&from)[rows], int unit,
                                                 Raw (&raw)[rows]) {
    visit_format(
        CodedFormats(), dtype, [&]<class Block>(Block*) __attribute__((always_inline)) {
#pragma unroll
          for (int r = 0; r < rows; ++r) {
            read<Block>(from[r], unit, raw[r]);
          }
        });
  }
  __device__ static Affine affine(const Raw& raw, int) { return {raw.scale, 0.0f}; }
  __device__ static void values(const Raw& raw, int, int w, float* out) { four_signed(raw.quants[w], out); }
};

}  // namespace rocmforge::gpu
