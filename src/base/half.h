#pragma once

#include <bit>
#include <cstdint>

namespace rocmforge {

/// Converts IEEE 754 binary16 to binary32. Exact: denormals, infinities and NaN are kept.
constexpr float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude >= 0x0400u) {
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  }
  // A denormal is magnitude * 2^-24, exact in binary32.
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

/// Converts binary32 to binary16, rounding to nearest even. Overflow becomes infinity; NaN stays NaN.
constexpr std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    return static_cast<std::uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: denormal or zero
    // The sum with 0.5 aligns the mantissa, so that the hardware rounds to nearest even at 2^-24.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u;
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Converts binary32 to bfloat16, rounding to nearest even. NaN stays NaN.
constexpr std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// The value of an OCP E8M0 scale: 2^(e - 127). e = 0 is the denormal 2^-127, and e = 255 is NaN.
constexpr float e8m0_to_float(std::uint8_t exponent) {
  if (exponent == 0) {
    return std::bit_cast<float>(0x00400000u);
  }
  if (exponent == 255) {
    return std::bit_cast<float>(0x7fc00000u);
  }
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent) << 23);
}

/// Types for storage only: arithmetic is done in float.
struct half {
  std::uint16_t bits = 0;
  half() = default;
  constexpr explicit half(float value) : bits(float_to_half(value)) {}
  constexpr explicit operator float() const { return half_to_float(bits); }
};

struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(float_to_bfloat16(value)) {}
  constexpr explicit operator float() const { return bfloat16_to_float(bits); }
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);

}  // namespace rocmforge
