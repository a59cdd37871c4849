#pragma once

#include <cstdint>

#include "tensor/dtype.h"

/// How the CPU's matrix products store a quantised weight [n, k].
///
/// Rows are taken in groups of 16 (the last group is filled up with zeros), and each group is a run of panels of 256 columns
/// (the last one may be shorter, a multiple of 32). A panel with `blocks` blocks of 32 columns:
///   head     head_halves x 16 f16: d, then dmin (formats with 256-element blocks only)
///   scales   blocks x scale_bytes, see ScaleForm; head and scales together are rounded up to 64 bytes
///   codes    blocks x (low plane, high plane)
/// In the planes, byte 4 * row + j of the vector i belongs to column 4 * i + j of the block (i in 0..7, 64 bytes a vector):
///   low, 8 bits  vectors 0..7
///   low, 4 bits  4 vectors: vector v holds i = v in the low and i = v + 4 in the high nibble
///   low, 2 bits  2 vectors: vector v holds i = v + 2 * s in the bits 2s and 2s + 1
///   high, 2 bits as low, 2 bits;   high, 1 bit: 1 vector, i in bit i
/// So one 64-byte vector feeds a four-way byte dot product of 16 rows against four activations.
/// A value is scale * (code - 2^offset_shift), or scale * code + addend where the format has minima.
///
/// Plain weights lie in groups of 16 rows as well, one column of the group after another (F32, F16), or pairs of columns, as
/// instructions for products of BF16 pairs want them (BF16: [k / 2][16 rows][2 columns]). An odd k ends with a column of
/// zeros.
namespace rocmforge {

/// What a panel holds for each block and each of 16 rows (arrays of 16, one after another).
enum class ScaleForm : std::uint8_t {
  half,              ///< f16 d
  half_and_addend,   ///< f16 d, f16 m: d * q + m
  byte_and_minimum,  ///< u8 sc, u8 m: d * sc * q - dmin * m
  signed_byte,       ///< i8 sc: d * sc * q
  signed_bytes,      ///< i8 sc for each half of the block
  nibbles,           ///< u8 for each half: scale in the low, minimum in the high nibble
  exponent,          ///< u8 e: 2^(e - 128) * q
};

/// Codes that stand for themselves, or for entries of a table of 16.
enum class CodeForm : std::uint8_t { plain, iq4_table, e2m1_table };

struct PackedFormat {
  DType type;
  int low_bits;
  int high_bits;
  ScaleForm scales;
  CodeForm codes;
  int offset_shift;  ///< log2 of what is subtracted from a code (after the table), -1 for nothing
};

namespace packed {

constexpr int group_rows = 16;
constexpr int block_columns = 32;
constexpr int panel_blocks = 8;
constexpr int panel_columns = block_columns * panel_blocks;

constexpr PackedFormat formats[] = {
    {DType::q4_0, 4, 0, ScaleForm::half, CodeForm::plain, 3},
    {DType::q4_1, 4, 0, ScaleForm::half_and_addend, CodeForm::plain, -1},
    {DType::q5_0, 4, 1, ScaleForm::half, CodeForm::plain, 4},
    {DType::q5_1, 4, 1, ScaleForm::half_and_addend, CodeForm::plain, -1},
    {DType::q8_0, 8, 0, ScaleForm::half, CodeForm::plain, 7},
    {DType::q2_k, 2, 0, ScaleForm::nibbles, CodeForm::plain, -1},
    {DType::q3_k, 2, 1, ScaleForm::signed_bytes, CodeForm::plain, 2},
    {DType::q4_k, 4, 0, ScaleForm::byte_and_minimum, CodeForm::plain, -1},
    {DType::q5_k, 4, 1, ScaleForm::byte_and_minimum, CodeForm::plain, -1},
    {DType::q6_k, 4, 2, ScaleForm::signed_bytes, CodeForm::plain, 5},
    {DType::iq4_nl, 4, 0, ScaleForm::half, CodeForm::iq4_table, 7},
    {DType::iq4_xs, 4, 0, ScaleForm::signed_byte, CodeForm::iq4_table, 7},
    {DType::mxfp4, 4, 0, ScaleForm::exponent, CodeForm::e2m1_table, 4},
};

// Functions with internal linkage: bodies for different instruction sets must never share a compiled copy.
static inline constexpr int scale_bytes(const PackedFormat& format) {
  switch (format.scales) {
    case ScaleForm::half_and_addend:
      return 64;
    case ScaleForm::signed_byte:
    case ScaleForm::exponent:
      return 16;
    default:
      return 32;
  }
}

static inline constexpr int head_bytes(const PackedFormat& format) {
  switch (format.scales) {
    case ScaleForm::byte_and_minimum:
    case ScaleForm::nibbles:
      return 64;
    case ScaleForm::signed_byte:
    case ScaleForm::signed_bytes:
      return 32;
    default:
      return 0;
  }
}

/// Columns of plain weights that are summed by themselves before they join the total.
constexpr int plain_panel_columns = 128;

static inline constexpr std::int64_t plain_group_bytes(DType type, std::int64_t k) {
  return (k + 1) / 2 * 2 * group_rows * (type == DType::f32 ? 4 : 2);
}

/// Bytes of the two planes of a block.
static inline constexpr int low_bytes(const PackedFormat& format) { return 64 * format.low_bits; }
static inline constexpr int code_bytes(const PackedFormat& format) { return 64 * (format.low_bits + format.high_bits); }

/// Where the codes of a panel begin, and where it ends.
static inline constexpr int code_offset(const PackedFormat& format, int blocks) {
  return (head_bytes(format) + blocks * scale_bytes(format) + 63) / 64 * 64;
}
static inline constexpr int panel_bytes(const PackedFormat& format, int blocks) {
  return code_offset(format, blocks) + blocks * code_bytes(format);
}

static inline constexpr std::int64_t group_bytes(const PackedFormat& format, std::int64_t k) {
  const std::int64_t full = k / panel_columns;
  const int rest = static_cast<int>(k % panel_columns) / block_columns;
  return full * panel_bytes(format, panel_blocks) + (rest > 0 ? panel_bytes(format, rest) : 0);
}

}  // namespace packed

}  // namespace rocmforge
