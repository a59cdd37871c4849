#pragma once

#include <cstdint>

#include "kernels/formats/weight_format.h"

// How Hopper's products store a quantised weight [n, k]. Host and device code include this.
//
// Tiles of 16 rows, one after another; the last one is padded with rows of zeros. A tile is a sequence of records along k,
// each with all data of 16 rows x `elems` columns; the last one is padded with zeros. Tiles and records follow each other
// without gaps and record sizes are multiples of 16 bytes, so that any run of records of a tile is one bulk copy.
//
// Elements are stored where a lane of the tensor core instructions reads them: lane 4 g + c (g < 8, c < 4) owns rows g and g
// + 8 and, of each 32 columns s, columns 32 s + 8 c + 0..7. "Chunk [row][c]" below means: for each of 16 rows, for each c.
// Groups are 128 columns, blocks 32: block s of group q starts at column 128 q + 32 s of the record.
//
//   codes   4-bit formats: for each group 1,024 bytes, chunk [row][c] of 16 bytes. Its 32-bit word s (little-endian) holds
//           the 8 elements of block s: element j < 4 in the low nibble of byte j, element 4 + j in its high nibble.
//           Q8_0: for each pair p of blocks 1,024 bytes, chunk [row][c] of 16 bytes: 8 elements of block 2 p, 8 of 2 p + 1.
//   high    one more bit (Q5_0, Q5_K): for each group 256 bytes, chunk [row][c] of one word: the bit of element 4 e + j of
//           block s is bit 8 j + 2 s + e. Two more bits (Q6_K): for each group 512 bytes, chunk [row][c] of two words: the
//           bits of element 4 e + j of block s are bits 8 j + 4 (s % 2) + 2 e of word s / 2.
//   scales  Q4_0, Q5_0, Q8_0: [row][block] binary16. MXFP4: [row][block] exponents as the file has them.
//           Q4_K, Q5_K: [row][4] words; the bytes of word j are the scales of blocks 2 j, 2 j + 1, then their minima.
//           Q6_K: [row][4] words; the bytes of word s are the scales of columns 32 s + 0..15 and + 16..31, then those of
//           block s of the second group.
//   super   Q4_K, Q5_K: [row] binary16 scale and minimum_scale. Q6_K: [row] binary16 scale.
//
// Codes are what the file has (q of scale * (q - offset), table indices), those of Q8_0 signed bytes.

namespace rocmforge::hopper {

inline constexpr int weight_tile_rows = 16;
inline constexpr int weight_group_elems = 128;

using gpu::weight_traits;
using gpu::WeightFormat;
using gpu::WeightScales;
using gpu::WeightTraits;

inline constexpr WeightFormat weight_formats[] = {
#define ROCMFORGE_NAME(name) WeightFormat::name,
    ROCMFORGE_HOPPER_FORMATS(ROCMFORGE_NAME)
#undef ROCMFORGE_NAME
};

/// Whether Hopper's kernels read the form of a type, and this form.
constexpr bool has_weight_layout(DType type) {
  for (const WeightFormat format : weight_formats) {
    if (format == gpu::find_weight_format(type)) {
      return true;
    }
  }
  return false;
}
constexpr WeightFormat weight_format(DType type) { return gpu::find_weight_format(type); }

struct WeightLayout {
  int elems;        ///< columns of a record
  int code_offset;  ///< of the parts of a record, in bytes
  int high_offset;  ///< meaningless without high bits
  int scale_offset;
  int super_offset;  ///< meaningless without super-block scales
  int record_bytes;
};

constexpr WeightLayout make_weight_layout(int elems, int code_bytes, int high_bytes, int scale_bytes, int super_bytes) {
  return {elems,
          0,
          code_bytes,
          code_bytes + high_bytes,
          code_bytes + high_bytes + scale_bytes,
          code_bytes + high_bytes + scale_bytes + super_bytes};
}

/// Bytes of a row's scales in a record.
constexpr int row_scale_bytes(WeightScales scales) {
  return has_super_scale(scales) ? 16 : scales == WeightScales::exponent ? 4 : 8;
}
constexpr int row_super_bytes(WeightScales scales) {
  return has_super_scale(scales) ? (subtracts_minimum(scales) ? 4 : 2) : 0;
}

constexpr WeightLayout make_weight_layout(const WeightTraits& traits) {
  const int elems = has_super_scale(traits.scales) ? 256 : 128;
  constexpr int rows = weight_tile_rows;
  return make_weight_layout(elems, rows * elems * traits.code_bits / 8, rows * elems * traits.high_bits / 8,
                            rows * row_scale_bytes(traits.scales), rows * row_super_bytes(traits.scales));
}

/// Device code that knows the form only when it runs can't read the table: each case is a constant.
constexpr WeightLayout weight_layout(WeightFormat format) {
  switch (format) {
#define ROCMFORGE_LAYOUT(name)                                                             \
  case WeightFormat::name: {                                                               \
    constexpr WeightLayout layout = make_weight_layout(weight_traits(WeightFormat::name)); \
    return layout;                                                                         \
  }
    ROCMFORGE_HOPPER_FORMATS(ROCMFORGE_LAYOUT)
#undef ROCMFORGE_LAYOUT
    default:
      return {};
  }
}

/// The offset that codes have, code = value + offset; for Q8_0 as an unsigned byte.
constexpr int weight_code_offset(WeightFormat format) { return weight_traits(format).offset; }
/// Whether a code is a nibble and nothing else, so that elements 4 to 7 of a word can stay in the high nibbles, 16 times too
/// large.
constexpr bool has_high_nibbles(WeightFormat format) {
  const WeightTraits traits = weight_traits(format);
  return traits.code_bits == 4 && traits.high_bits == 0 && !traits.has_table;
}

constexpr std::int64_t weight_tiles(std::int64_t n) { return (n + weight_tile_rows - 1) / weight_tile_rows; }
constexpr std::int64_t weight_records(const WeightLayout& layout, std::int64_t k) {
  return (k + layout.elems - 1) / layout.elems;
}
/// Bytes of a tile, and so the distance of two.
constexpr std::int64_t weight_tile_bytes(const WeightLayout& layout, std::int64_t k) {
  return weight_records(layout, k) * layout.record_bytes;
}

}  // namespace rocmforge::hopper
