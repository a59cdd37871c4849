#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/quant/iq4_nl.h"
#include "tensor/quant/mxfp4.h"

/// How the CPU's matrix products store a quantised weight [n, k].
///
/// Rows are taken in groups of 16 (the last group is filled up with zeros), and each group is a run of panels of 256 columns
/// (the last one may be shorter, a multiple of 32). A panel with `blocks` blocks of 32 columns:
///   head     16 f16 d, then 16 f16 dmin where the format has minima (formats with 256-element blocks only), see head_bytes
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
/// Vectors of a table (IQ1, IQ2, IQ3) are taken apart: their elements are one of 3 to 16 numbers each, which a code of 2 to
/// 4 bits names. So a packed weight is larger than the file: 2.63 bits an element in place of 1.56 for IQ1_S, of 1.69 for
/// TQ1_0 and of 2.06 for TQ2_0; 3.63 in place of 1.75 for IQ1_M and of 2.06 to 2.56 for IQ2; 4.63 in place of 3.06 for
/// IQ3_XXS and of 3.44 for IQ3_S; 5 in place of 4.5 for NVFP4.
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
  half_pair,         ///< f16 d for each half of the block
  nibbles,           ///< u8 for each half: scale in the low, minimum in the high nibble
  exponent,          ///< u8 e: 2^(e - 128) * q
};

/// Codes are either values themselves or indices of a table of 16 values (packed::values_of).
enum class CodeForm : std::uint8_t { plain, iq4_table, e2m1_table, iq1_table, iq2_table, iq3_xxs_table, iq3_s_table };

struct PackedFormat {
  DType type;
  int low_bits;
  int high_bits;
  ScaleForm scales;
  CodeForm codes;
  int offset_shift;       ///< log2 of what is subtracted from a code (after the table), -1 for nothing
  int scale_shift = 0;    ///< d counts 2^-scale_shift times
  int minimum_shift = 0;  ///< dmin counts 2^-minimum_shift times
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
    {DType::nvfp4, 4, 0, ScaleForm::half_pair, CodeForm::e2m1_table, 4},
    // Three values; their middle, and IQ1_S's shift of an eighth, are in the minimum.
    {DType::iq1_s, 2, 0, ScaleForm::byte_and_minimum, CodeForm::plain, -1, 0, 3},
    {DType::tq1_0, 2, 0, ScaleForm::byte_and_minimum, CodeForm::plain, -1, 0, 3},
    {DType::tq2_0, 2, 0, ScaleForm::byte_and_minimum, CodeForm::plain, -1, 0, 3},
    {DType::iq1_m, 2, 1, ScaleForm::signed_bytes, CodeForm::iq1_table, 4, 3},
    {DType::iq2_xxs, 2, 1, ScaleForm::signed_bytes, CodeForm::iq2_table, 6, 3},
    {DType::iq2_xs, 2, 1, ScaleForm::signed_bytes, CodeForm::iq2_table, 6, 3},
    {DType::iq2_s, 2, 1, ScaleForm::signed_bytes, CodeForm::iq2_table, 6, 3},
    {DType::iq3_xxs, 4, 0, ScaleForm::signed_bytes, CodeForm::iq3_xxs_table, 6, 2},
    {DType::iq3_s, 4, 0, ScaleForm::signed_bytes, CodeForm::iq3_s_table, 4},
};

/// The format without its type: formats of one layout are then equal and share the functions made for it.
static inline constexpr PackedFormat layout_of(PackedFormat format) {
  format.type = DType::f32;
  return format;
}

inline constexpr std::int8_t iq1_values[16] = {-9, -7, -1, 1, 7, 9};
inline constexpr std::int8_t iq2_values[16] = {-43, -25, -8, 8, 25, 43};
inline constexpr std::int8_t iq3_xxs_values[16] = {-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::int8_t iq3_s_values[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};

/// The table of values that such codes index.
static inline constexpr const std::int8_t (&values_of(CodeForm codes))[16] {
  switch (codes) {
    case CodeForm::e2m1_table:
      return mxfp4_values;
    case CodeForm::iq1_table:
      return iq1_values;
    case CodeForm::iq2_table:
      return iq2_values;
    case CodeForm::iq3_xxs_table:
      return iq3_xxs_values;
    case CodeForm::iq3_s_table:
      return iq3_s_values;
    default:
      return iq4_values;
  }
}

// Functions with internal linkage: bodies for different instruction sets must never share a compiled copy.
static inline constexpr int scale_bytes(const PackedFormat& format) {
  switch (format.scales) {
    case ScaleForm::half_and_addend:
    case ScaleForm::half_pair:
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
