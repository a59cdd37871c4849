#pragma once

// Weights for the matrix products, as runs of 16 consecutive elements that share a scale.
//
// A run's number in its row is element / 16. WeightRuns<Block> knows one format of tensor/quant:
//   parts, unit_of, part_of, run_of   a unit is the `parts` runs that share bytes (the low and the high nibbles of 16
//   bytes):
//                                     run_of(unit_of(run), part_of(run)) == run
//   load(row, unit, k)                the bytes of a unit, untouched, so that loads can run ahead of their use
//   affine(raw, part)                 element = scale * value + offset; without `has_offset` the offset is 0
//   values(raw, part, w, out)         values of elements 4 w to 4 w + 3 of the run
// A row starts at an address that is a multiple of the format's block alignment; k is only needed by plain types, whose rows
// may have any length: elements from k on are 0.

#include "kernels/gpu/matmul_bytes.h"
#include "tensor/quant/formats.h"

namespace rocmforge::gpu {

inline constexpr int run_elems = 16;

struct Affine {
  float scale;
  float offset;
};

template <class Block>
struct WeightRuns;

// ---- plain types ----

/// One run is a unit.
struct SingleRuns {
  static constexpr int parts = 1;
  static constexpr bool has_offset = false;
  __device__ static int unit_of(int run_index) { return run_index; }
  __device__ static int part_of(int) { return 0; }
  __device__ static int run_of(int unit, int) { return unit; }
};

template <class Storage>
struct PlainRuns : SingleRuns {
  static constexpr int words = run_elems * static_cast<int>(sizeof(Storage)) / 4;
  struct Raw {
    std::uint32_t words[PlainRuns::words];
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int k) {
    Raw raw;
    const int first = run_elems * unit;
    if (first + run_elems <= k && k * static_cast<int>(sizeof(Storage)) % 16 == 0) {
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
struct WeightRuns<BlockF32> : PlainRuns<float> {};
template <>
struct WeightRuns<BlockF16> : PlainRuns<half> {};
template <>
struct WeightRuns<BlockBF16> : PlainRuns<bfloat16> {};

// ---- blocks of 32 ----

/// A block is a unit: its 16 bytes of nibbles hold elements 0 to 15 and 16 to 31.
template <class Block>
struct NibbleBlocks {
  static constexpr int parts = 2;
  static constexpr int alignment = static_cast<int>(sizeof(Block) % 4 == 0 ? 4 : sizeof(Block) % 2 == 0 ? 2 : 1);
  __device__ static int unit_of(int run_index) { return run_index >> 1; }
  __device__ static int part_of(int run_index) { return run_index & 1; }
  __device__ static int run_of(int unit, int part) { return 2 * unit + part; }

 protected:
  __device__ static const std::uint8_t* block(const std::uint8_t* row, int unit) {
    return row + unit * static_cast<int>(sizeof(Block));
  }
  __device__ static std::uint32_t nibbles(std::uint32_t word, int part) { return word >> 4 * part & 0x0f0f0f0fu; }
};

template <>
struct WeightRuns<BlockQ4_0> : NibbleBlocks<BlockQ4_0> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t quants[4];
    float scale;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<4, 2>(block(row, unit) + 2, raw.quants);
    raw.scale = load_half(block(row, unit));
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) { return {raw.scale, -(8.0f + code_bias) * raw.scale}; }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(nibbles(raw.quants[w], part), out);
  }
};

template <>
struct WeightRuns<BlockQ4_1> : NibbleBlocks<BlockQ4_1> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t words[5];  ///< scale and minimum, quants
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<5, 4>(block(row, unit), raw.words);
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) {
    const float scale = half_of_word(raw.words[0], 0);
    return {scale, fmaf(-code_bias, scale, half_of_word(raw.words[0], 1))};
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(nibbles(raw.words[1 + w], part), out);
  }
};

template <>
struct WeightRuns<BlockQ5_0> : NibbleBlocks<BlockQ5_0> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t words[5];  ///< fifth bits, quants
    float scale;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<5, 2>(block(row, unit) + 2, raw.words);
    raw.scale = load_half(block(row, unit));
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) { return {raw.scale, -(16.0f + code_bias) * raw.scale}; }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(nibbles(raw.words[1 + w], part) | spread_bits<4>(raw.words[0] >> (16 * part + 4 * w)), out);
  }
};

template <>
struct WeightRuns<BlockQ5_1> : NibbleBlocks<BlockQ5_1> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t words[6];  ///< scale and minimum, fifth bits, quants
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<6, 8>(block(row, unit), raw.words);
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) {
    const float scale = half_of_word(raw.words[0], 0);
    return {scale, fmaf(-code_bias, scale, half_of_word(raw.words[0], 1))};
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(nibbles(raw.words[2 + w], part) | spread_bits<4>(raw.words[1] >> (16 * part + 4 * w)), out);
  }
};

template <>
struct WeightRuns<BlockQ8_0> : SingleRuns {
  struct Raw {
    std::uint32_t quants[4];
    float scale;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    const std::uint8_t* block = row + (unit >> 1) * static_cast<int>(sizeof(BlockQ8_0));
    load_words<4, 2>(block + 2 + 16 * (unit & 1), raw.quants);
    raw.scale = load_half(block);
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) { return {raw.scale, 0.0f}; }
  __device__ static void values(const Raw& raw, int, int w, float* out) { four_signed(raw.quants[w], out); }
};

template <>
struct WeightRuns<BlockIQ4_NL> : NibbleBlocks<BlockIQ4_NL> {
  static constexpr bool has_offset = false;
  struct Raw {
    std::uint32_t quants[4];
    float scale;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<4, 2>(block(row, unit) + 2, raw.quants);
    raw.scale = load_half(block(row, unit));
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) { return {raw.scale, 0.0f}; }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    constexpr SignedTable table = make_signed_table(iq4_values);
    four_signed(look_up(table, nibbles(raw.quants[w], part)), out);
  }
};

template <>
struct WeightRuns<BlockMXFP4> : NibbleBlocks<BlockMXFP4> {
  static constexpr bool has_offset = false;
  struct Raw {
    std::uint32_t quants[4];
    std::uint32_t exponent;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<4, 1>(block(row, unit) + 1, raw.quants);
    raw.exponent = *block(row, unit);
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

}  // namespace rocmforge::gpu
