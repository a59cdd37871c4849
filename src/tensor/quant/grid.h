#pragma once

#include <cstdint>

#include "tensor/quant/block.h"

// Expands entries of the tables in grid_iq1.h, grid_iq2.h and grid_iq3.h to signed bytes, four bytes of a word at a time.

namespace rocmforge {

/// Four codes of two bits, expanded to one in each byte.
static constexpr std::uint32_t spread_pairs(std::uint32_t bits) {
  const std::uint32_t apart = (bits & 0x0fu) | (bits & 0xf0u) << 12;
  return (apart | apart << 6) & 0x03030303u;
}

/// Four codes of four bits, expanded to one in each byte.
static constexpr std::uint32_t spread_nibbles(std::uint32_t bits) {
  const std::uint32_t apart = (bits & 0x00ffu) | (bits & 0xff00u) << 8;
  return (apart | apart << 4) & 0x0f0f0f0fu;
}

/// Eight sign bits, of which seven are stored: the number of set bits is even.
static constexpr std::uint32_t even_signs(std::uint32_t seven) {
  std::uint32_t parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return (seven & 127u) | (parity & 1u) << 7;
}

/// Four bytes from 1 to 127, each negated where its bit of `signs` is set. The factor copies the four bits to positions 7
/// bits apart, where the copies do not overlap.
static constexpr std::uint32_t with_signs(std::uint32_t bytes, std::uint32_t signs) {
  const std::uint32_t ones = (signs & 15u) * 0x00204081u & 0x01010101u;
  return (bytes ^ ones * 0xffu) + ones;
}

// Words are computed one by one, because device code keeps arrays that a loop indexes in memory.

/// Four elements of an entry of an IQ2 table, from its lowest bits: 8, 25 or 43 with a sign.
static constexpr std::uint32_t iq2_word(std::uint32_t entry, std::uint32_t signs) {
  const std::uint32_t codes = spread_pairs(entry & 0xffu);
  return with_signs(0x08080808u + 17u * codes + (codes >> 1 & 0x01010101u), signs);
}
static constexpr EightBytes iq2_integers(std::uint32_t entry, std::uint32_t signs) {
  return {{iq2_word(entry, signs), iq2_word(entry >> 8, signs >> 4)}};
}

/// Four elements of an entry of the IQ1 table, times 8. Each is 8 times -1, 0 or 1, plus a shift of 1 or -1 that is the same
/// for all.
static constexpr std::uint32_t iq1_word(std::uint32_t entry, bool shift_down) {
  const std::uint32_t centre = shift_down ? 0x77777777u : 0x79797979u;  // 128 - 8, plus the shift
  return (8u * spread_pairs(entry & 0xffu) + centre) ^ 0x80808080u;
}
static constexpr EightBytes iq1_integers(std::uint32_t entry, bool shift_down) {
  return {{iq1_word(entry, shift_down), iq1_word(entry >> 8, shift_down)}};
}

/// An entry of IQ3_XXS's table: each element is 4, 12, and so on to 52, or 62, with a sign.
static constexpr std::uint32_t iq3_xxs_word(std::uint32_t entry, std::uint32_t signs) {
  const std::uint32_t codes = spread_nibbles(entry);
  const std::uint32_t sevens = codes & codes >> 1 & codes >> 2 & 0x01010101u;
  return with_signs(0x04040404u + 8u * codes + 2u * sevens, signs);
}

/// An entry of IQ3_S's table: each element is an odd number below 16 with a sign.
static constexpr std::uint32_t iq3_s_word(std::uint32_t entry, std::uint32_t signs) {
  return with_signs(0x01010101u + 2u * spread_nibbles(entry), signs);
}

}  // namespace rocmforge
