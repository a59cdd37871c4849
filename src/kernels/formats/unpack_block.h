#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/formats/unpacked_row.h"
#include "tensor/quant/block.h"

// A block of any format taken apart by its description (tensor/quant/block.h). Host code alone.

namespace rocmforge {

/// A scale for each 256 values of -1, 0 and 1: TQ1_0 and TQ2_0.
template <class Block>
inline constexpr bool is_ternary = (Block::elems == UnpackedRow::columns) && (Block::group == UnpackedRow::columns);

/// One code or integer a byte.
template <class Block>
void unpack_codes_or_integers(const Block& block, std::uint8_t* codes) {
  if constexpr (DescribedBlock<Block>) {
    unpack_codes(block, codes);
  } else {
    for (unsigned first = 0; first < Block::elems; first += 8) {
      const EightBytes integers = block.integers(first);
      std::memcpy(codes + first, integers.words, 8);
    }
  }
}

/// The scales and minima of the strips of group `group`.
template <class Block>
UnpackedRow::Strip strip_of(const Block& block, [[maybe_unused]] unsigned group) {
  UnpackedRow::Strip strip{};
  if constexpr (requires { block.exponent; }) {
    strip.scale_code = block.exponent;
  } else if constexpr (requires { block.group_scale(0); }) {
    strip.scale = half(block.group_scale(group));
    strip.scale_code = block.scales[group];
  } else if constexpr (is_ternary<Block>) {
    strip.scale_code = strip.minimum_code = 1;
  } else if constexpr (requires { block.scale_code(0); }) {
    strip.scale_code = static_cast<std::uint8_t>(block.scale_code(group));
  } else {
    strip.scale = block.scale;
  }
  if constexpr (requires { block.minimum; }) {
    strip.minimum = block.minimum;
  } else if constexpr (requires { block.minimum_code(0); }) {
    strip.minimum_code = static_cast<std::uint8_t>(block.minimum_code(group));
  } else if constexpr (requires { block.shifts_down(0); }) {
    // scale * s * ((code - 1) + shift) with a shift of an eighth.
    strip.minimum_code = static_cast<std::uint8_t>(block.scale_code(group) * (block.shifts_down(group) ? 9 : 7));
  }
  return strip;
}

/// Puts `block` into the columns of `row` from `column` on, a multiple of the block's elements.
template <class Block>
void unpack_block(const Block& block, int column, UnpackedRow& row) {
  unpack_codes_or_integers(block, row.codes + column);
  constexpr unsigned strips = Block::elems / UnpackedRow::strip_columns;
  for (unsigned strip = 0; strip < strips; ++strip) {
    row.strips[static_cast<unsigned>(column) / UnpackedRow::strip_columns + strip] =
        strip_of(block, strip * UnpackedRow::strip_columns / Block::group);
  }
  if constexpr (Block::elems == UnpackedRow::columns) {
    row.scale = block_scale(block);
    if constexpr (requires { block.minimum_scale; }) {
      row.minimum = block.minimum_scale;
    } else {
      row.minimum = row.scale;  // of three values: their middle, and IQ1_S's shift
    }
  }
}

}  // namespace rocmforge
