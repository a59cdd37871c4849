#pragma once

#include <cstdint>

#include "kernels/formats/weight_format.h"

// How the products for AMD store a quantised weight [n, k]. Host and device code include this.
//
// Tiles of 8 rows, one after another; the last one is padded with rows of zeros. A tile is a sequence of records along k,
// each with all data of 8 rows x 256 columns; the last one is padded with zeros. Record sizes are multiples of 16 bytes.
// After the last tile there is room for one more record (weight_room_bytes), which may be read and has no meaning.
//
// A piece is 32 columns of a row, columns 32 c + 0..31 of the record: the unit that a lane multiplies. The parts of a record
// are [row][c], so that 32 neighbouring lanes read 512 neighbouring bytes of codes:
//
//   codes   4-bit formats, and those with one or two bits more: 16 bytes. Byte j holds elements j (low nibble) and 16 + j
//           (high nibble). Q8_0: 16 bytes with elements 0..15 of each piece, then as much with elements 16..31. Q2_K, Q3_K:
//           the low two bits, 8 bytes, as two more bits below.
//   high    one more bit (Q5_0, Q5_1, Q5_K, Q3_K): one word. Bit 8 b + i is that of element 4 i + b.
//           Two more bits (Q6_K): two words. Bits 8 b + 2 i and the next of word w are those of element 16 w + 4 i + b.
//   scales  2 bytes. Q4_0, Q5_0, Q8_0, IQ4_NL: binary16. MXFP4: the exponent as the file has it, and a zero. NVFP4: the
//           E4M3 scales of elements 0..15 and 16..31, with 0 for code 127, which stands for 0. Q4_K, Q5_K: the
//           codes of scale and minimum. Q6_K, Q3_K: the signed scales of elements 0..15 and 16..31. Q2_K: of these the codes
//           of scale (low nibble) and minimum.
//           4 bytes. Q4_1, Q5_1: binary16 scale and minimum. 1 byte. IQ4_XS: the signed scale. IQ3: the odd scale
//           2 s + 1, and for IQ3_XXS 128 more. IQ1, IQ2: nibbles s of the scales 2 s + 1 of elements 0..15
//           and 16..31.
//   super   [row]. Q4_K, Q5_K, Q2_K: binary16 scale and minimum_scale. Q6_K: binary16 scale, and zeros up to 4 bytes. Q3_K,
//           IQ4_XS, IQ3: binary16 scale. IQ1, IQ2: its magnitude, and the sign bit where the values are those of IQ1.
//
// Codes are what the file has (q of scale * (q - offset), table indices), those of Q8_0 signed bytes. IQ1, IQ2 and IQ3
// formats have vectors of several elements in the file, and here a code for each: with 4 bits an index into iq3_values, with
// 3 bits one into iq1_values or iq2_values, in the planes of Q4_0 and Q3_K; codes take the sign of a scale of IQ1 and IQ2.
// TQ1_0 and TQ2_0 are stored as Q2_K: scale * (q - 1) is scale * q - scale, with all codes of scales and minima 1.

namespace rocmforge::amd {

using gpu::find_weight_format;
using gpu::weight_traits;
using gpu::WeightFormat;
using gpu::WeightScales;
using gpu::WeightTraits;

/// AMD's kernels read every form.
constexpr bool has_weight_layout(DType type) { return find_weight_format(type) != WeightFormat::none; }
/// The form of a type that has_weight_layout.
constexpr WeightFormat weight_format(DType type) { return find_weight_format(type); }

inline constexpr int weight_tile_rows = 8;
inline constexpr int record_elems = 256;
inline constexpr int piece_elems = 32;
inline constexpr int record_pieces = record_elems / piece_elems;
/// Bytes of the pieces' first 16 bytes of codes.
inline constexpr int code_plane_bytes = weight_tile_rows * record_pieces * 16;

/// The values of the codes of IQ1 and IQ2 formats, in eighths: a magnitude in the low two bits, then the sign.
inline constexpr std::int8_t iq1_values[8] = {1, 7, 9, 0, -1, -7, -9, 0};
inline constexpr std::int8_t iq2_values[8] = {8, 25, 43, 0, -8, -25, -43, 0};
inline constexpr unsigned code_sign = 4;
inline constexpr unsigned iq1_flag = 0x8000;  ///< in the scale of a row

/// Twice the values of the codes of IQ3 formats: a magnitude in the low three bits, then the sign. The largest magnitude of
/// IQ3_XXS is 31 in place of 30: iq3_xxs_flag in a piece's scale tells the two formats apart.
inline constexpr std::int8_t iq3_values[16] = {2, 6, 10, 14, 18, 22, 26, 30, -2, -6, -10, -14, -18, -22, -26, -30};
inline constexpr std::uint8_t iq3_xxs_flag = 128;

struct WeightLayout {
  int code_bytes;  ///< of a piece: 32, 16 or 8
  int high_bytes;  ///< of a piece
  int scale_bytes;
  int super_bytes;  ///< of a row
  int high_offset;  ///< of the parts of a record, in bytes
  int scale_offset;
  int super_offset;
  int record_bytes;
};

constexpr WeightLayout make_weight_layout(int code_bytes, int high_bytes, int scale_bytes, int super_bytes) {
  constexpr int pieces = weight_tile_rows * record_pieces;
  const int high_offset = pieces * code_bytes;
  const int scale_offset = high_offset + pieces * high_bytes;
  const int super_offset = scale_offset + pieces * scale_bytes;
  return {code_bytes,  high_bytes,   scale_bytes,  super_bytes,
          high_offset, scale_offset, super_offset, super_offset + weight_tile_rows * super_bytes};
}

/// Bytes of a piece's scales.
constexpr int piece_scale_bytes(WeightScales scales) {
  switch (scales) {
    case WeightScales::half_and_minimum:
      return 4;
    case WeightScales::code:
    case WeightScales::odd_of_strip:
      return 1;
    default:
      return 2;
  }
}

constexpr WeightLayout weight_layout(WeightFormat format) {
  const WeightTraits traits = weight_traits(format);
  const bool two_scales =
      subtracts_minimum(traits.scales) || format == WeightFormat::q6_k;  // of Q6_K the second one is zero
  const int super_bytes = has_super_scale(traits.scales) ? (two_scales ? 4 : 2) : 0;
  return make_weight_layout(piece_elems * traits.code_bits / 8, piece_elems * traits.high_bits / 8,
                            piece_scale_bytes(traits.scales), super_bytes);
}

/// Bytes that a work-group reads from the start of a record before it knows the format, even where records are shorter.
inline constexpr int first_read_bytes = code_plane_bytes + 4;
/// Bytes of room after the last tile.
constexpr int weight_room_bytes(const WeightLayout& layout) {
  return layout.record_bytes > first_read_bytes ? layout.record_bytes : (first_read_bytes + 15) / 16 * 16;
}

constexpr std::int64_t weight_tiles(std::int64_t n) { return (n + weight_tile_rows - 1) / weight_tile_rows; }
constexpr std::int64_t weight_records(std::int64_t k) { return (k + record_elems - 1) / record_elems; }
/// Bytes of a tile, and so the distance of two.
constexpr std::int64_t weight_tile_bytes(const WeightLayout& layout, std::int64_t k) {
  return weight_records(k) * layout.record_bytes;
}

}  // namespace rocmforge::amd
