#pragma once

#include <cstdint>

#include "tensor/quant/block.h"

// From the entries of the tables grid_iq1.h, grid_iq2.h and grid_iq3.h to eight signed bytes, four bytes of a word at a
// time.

namespace rocmforge {

/// Four codes of two bits, one a byte.
static constexpr std::uint32_t spread_pairs(std::uint32_t bits) {
  const std::uint32_t apart = (bits & 0x0fu) | (bits & 0xf0u) << 12;
  return (apart | apart << 6) & 0x03030303u;
}

/// Four codes of four bits, one a byte.
static constexpr std::uint32_t spread_nibbles(std::uint32_t bits) {
  const std::uint32_t apart = (bits & 0x00ffu) | (bits & 0xff00u) << 8;
  return (apart | apart << 4) & 0x0f0f0f0fu;
}

/// Eight signs of which seven are stored: the number of negative ones is even.
static constexpr std::uint32_t even_signs(std::uint32_t seven) {
  std::uint32_t parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return (seven & 127u) | (parity & 1u) << 7;
}

/// Four bytes from 1 to 127, negated where the bit of `signs` is set. The factor puts four copies of the bits 7 bits apart,
/// which do not overlap.
static constexpr std::uint32_t with_signs(std::uint32_t bytes, std::uint32_t signs) {
  const std::uint32_t ones = (signs & 15u) * 0x00204081u & 0x01010101u;
  return (bytes ^ ones * 0xffu) + ones;
}

/// The eight elements of an entry of an IQ2 table: 8, 25 or 43 with a sign.
static constexpr EightBytes iq2_integers(std::uint32_t entry, std::uint32_t signs) {
  EightBytes result{};
  for (unsigned i = 0; i < 2; ++i) {
    const std::uint32_t codes = spread_pairs(entry >> 8 * i & 0xffu);
    result.words[i] = with_signs(0x08080808u + 17u * codes + (codes >> 1 & 0x01010101u), signs >> 4 * i);
  }
  return result;
}

/// The eight elements of an entry of the IQ1 table, times 8: eight times -1, 0 or 1, and a shift of 1 or -1 for all.
static constexpr EightBytes iq1_integers(std::uint32_t entry, bool shift_down) {
  const std::uint32_t centre = shift_down ? 0x77777777u : 0x79797979u;  // 128 - 8 and the shift
  EightBytes result{};
  for (unsigned i = 0; i < 2; ++i) {
    result.words[i] = (8u * spread_pairs(entry >> 8 * i & 0xffu) + centre) ^ 0x80808080u;
  }
  return result;
}

}  // namespace rocmforge
