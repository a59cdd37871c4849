#pragma once

#include <cstdint>

#include "kernels/gpu/weight_format.h"

// How the products of this folder store a quantised weight [n, k]. Host and device code include this.
//
// Tiles of 8 rows, one after another; the last one is filled up with rows of zeros. A tile is a sequence of records along
// k, each with everything of 8 rows x 256 columns; the last one is filled up with zeros. Records are multiples of 16 bytes
// long. Behind the last tile there is room for one more record, which may be read and means nothing.
//
// A piece is 32 columns of a row, columns 32 c + 0..31 of the record: what a lane multiplies. The parts of a record, each
// [row][c], so that 32 neighbouring lanes read 512 neighbouring bytes of codes:
//
//   codes   4-bit formats: 16 bytes. Byte j holds elements j (low nibble) and 16 + j (high nibble).
//           Q8_0: 16 bytes with elements 0..15 of each piece, then as much with elements 16..31.
//   high    one more bit (Q5_0, Q5_K): one word. Bit 8 b + i is that of element 4 i + b.
//           Two more bits (Q6_K): two words. Bits 8 b + 2 i and the next of word w are those of element 16 w + 4 i + b.
//   scales  2 bytes. Q4_0, Q5_0, Q8_0: binary16. MXFP4: the exponent as the file has it, and a zero. Q4_K, Q5_K: the codes
//   of
//           scale and minimum. Q6_K: the scales of elements 0..15 and 16..31.
//   super   [row] one word. Q4_K, Q5_K: binary16 scale and minimum_scale. Q6_K: binary16 scale, and zeros.
//
// Codes are what the file has (q of scale * (q - offset), table indices), those of Q8_0 signed bytes.

namespace rocmforge::amd {

inline constexpr int weight_tile_rows = 8;
inline constexpr int record_elems = 256;
inline constexpr int piece_elems = 32;
inline constexpr int record_pieces = record_elems / piece_elems;
/// Bytes of the pieces' first 16 bytes of codes, and of their scales.
inline constexpr int code_plane_bytes = weight_tile_rows * record_pieces * 16;
inline constexpr int scale_plane_bytes = weight_tile_rows * record_pieces * 2;

using gpu::has_weight_layout;
using gpu::weight_format;
using gpu::WeightFormat;

struct WeightLayout {
  int high_bytes;   ///< of a piece
  int high_offset;  ///< of the parts of a record, in bytes
  int scale_offset;
  int super_offset;
  int record_bytes;
};

constexpr WeightLayout make_weight_layout(int code_planes, int high_bytes, bool has_super) {
  const int scale_offset = code_planes * code_plane_bytes + weight_tile_rows * record_pieces * high_bytes;
  const int super_offset = scale_offset + scale_plane_bytes;
  return {high_bytes, code_planes * code_plane_bytes, scale_offset, super_offset,
          super_offset + (has_super ? weight_tile_rows * 4 : 0)};
}

constexpr WeightLayout weight_layout(WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_0:
    case WeightFormat::mxfp4:
      return make_weight_layout(1, 0, false);
    case WeightFormat::q5_0:
      return make_weight_layout(1, 4, false);
    case WeightFormat::q8_0:
      return make_weight_layout(2, 0, false);
    case WeightFormat::q4_k:
      return make_weight_layout(1, 0, true);
    case WeightFormat::q5_k:
      return make_weight_layout(1, 4, true);
    case WeightFormat::q6_k:
      return make_weight_layout(1, 8, true);
  }
  return {};
}

constexpr std::int64_t weight_tiles(std::int64_t n) { return (n + weight_tile_rows - 1) / weight_tile_rows; }
constexpr std::int64_t weight_records(std::int64_t k) { return (k + record_elems - 1) / record_elems; }
/// Bytes of a tile, and so the distance of two.
constexpr std::int64_t weight_tile_bytes(const WeightLayout& layout, std::int64_t k) {
  return weight_records(k) * layout.record_bytes;
}

}  // namespace rocmforge::amd
