#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// Up to 256 columns of one row of a quantised weight, taken apart to codes and scales: what the packers of all families
/// write in their layouts. Parts that the type lacks are zero.
struct UnpackedRow {
  static constexpr int columns = 256;
  static constexpr int strip_columns = 16;

  /// Of 16 columns.
  struct Strip {
    half scale;                 ///< where blocks have a binary16 scale each, or a number that binary16 can hold
    half minimum;               ///< what is added to code * scale
    std::uint8_t scale_code;    ///< an integer of the group, signed or not; an exponent; the E4M3 scale
    std::uint8_t minimum_code;  ///< of the group; of IQ1_S in eighths of the scale
  };

  /// Unsigned codes, or the integers (signed bytes) of a type whose blocks give these. Zero behind the last column.
  std::uint8_t codes[columns];
  Strip strips[columns / strip_columns];
  half scale;    ///< of a block of 256: what multiplies scale_code
  half minimum;  ///< likewise minimum_code
};

/// Takes apart the first `count` columns of the row at `blocks`, as the file stores them: whole blocks, at most 256 columns.
/// check()s that `type` is quantised.
void unpack_row(DType type, const std::uint8_t* blocks, int count, UnpackedRow& row);

}  // namespace rocmforge
