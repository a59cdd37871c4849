#pragma once

#include <cstdint>

namespace rocmforge {

// Unpacking shared by several block formats, and by the kernels that compute on the blocks. Functions of this folder are
// static because kernel bodies are compiled once per instruction set: the linker must not share one copy among them. They
// are constexpr so that GPU code may call them.

/// Four bytes, little-endian, at any address.
static constexpr std::uint32_t load_u32(const std::uint8_t bytes[4]) {
  return bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8 | static_cast<std::uint32_t>(bytes[2]) << 16 |
         static_cast<std::uint32_t>(bytes[3]) << 24;
}

/// Q4_K and Q5_K: the 6-bit scales and minima of the 8 sub-blocks, packed in 12 bytes. The first four of each lie in the low
/// six bits of bytes 0-3 and 4-7; the last four have their low nibbles in bytes 8-11 and their top two bits in bytes 0-7.
static constexpr void unpack_scales_k4(const std::uint8_t packed[12], std::uint8_t scales[8], std::uint8_t minima[8]) {
  for (int k = 0; k < 4; ++k) {
    scales[k] = packed[k] & 63u;
    minima[k] = packed[k + 4] & 63u;
    scales[k + 4] = static_cast<std::uint8_t>((packed[k + 8] & 15u) | (packed[k] >> 6) << 4);
    minima[k + 4] = static_cast<std::uint8_t>((packed[k + 8] >> 4) | (packed[k + 4] >> 6) << 4);
  }
}

/// Q3_K: the signed 6-bit scales of the 16 sub-blocks, packed in 12 bytes: low nibbles in bytes 0-7, top two bits in 8-11.
static constexpr void unpack_scales_q3_k(const std::uint8_t packed[12], std::int8_t scales[16]) {
  for (int s = 0; s < 16; ++s) {
    const unsigned low = packed[s % 8] >> 4 * (s / 8) & 15u;
    const unsigned high = packed[8 + s % 4] >> 2 * (s / 4) & 3u;
    scales[s] = static_cast<std::int8_t>(static_cast<int>(low | high << 4) - 32);
  }
}

/// IQ4_XS: the signed 6-bit scales of the 8 sub-blocks: nibbles in `low`, top two bits in `high`.
static constexpr void unpack_scales_iq4_xs(const std::uint8_t low[4], std::uint16_t high, std::int8_t scales[8]) {
  for (int k = 0; k < 8; ++k) {
    const unsigned low_bits = low[k / 2] >> 4 * (k % 2) & 15u;
    const unsigned high_bits = high >> 2 * k & 3u;
    scales[k] = static_cast<std::int8_t>(static_cast<int>(low_bits | high_bits << 4) - 32);
  }
}

}  // namespace rocmforge
