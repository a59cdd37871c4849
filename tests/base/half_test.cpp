#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace rocmforge {
namespace {

// The value of a half by its definition, in double: sign * 2^(e - 15) * (1 + m / 1024), denormals 2^-24 * m.
double half_by_definition(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, every_bit_pattern_has_its_value) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    const double expected = half_by_definition(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
    } else {
      EXPECT_EQ(value, expected) << bits;
      EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST(Half, every_value_survives_the_round_trip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(float_to_half(value), bits);
    } else {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    }
  }
}

TEST(Half, rounds_to_nearest_even) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (half_to_float(low) + half_to_float(high)) / 2;  // exact: one bit more than a half has
    EXPECT_EQ(float_to_half(middle), bits % 2 == 0 ? low : high) << bits;
    EXPECT_EQ(float_to_half(std::nextafter(middle, 0.0f)), low) << bits;
    EXPECT_EQ(float_to_half(std::nextafter(middle, 1e9f)), high) << bits;
    EXPECT_EQ(float_to_half(-middle), (bits % 2 == 0 ? low : high) | 0x8000) << bits;
  }
}

TEST(Half, overflow_and_underflow) {
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65519.99f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(1e30f), 0x7c00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(float_to_half(1e-30f), 0);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);  // halfway to the smallest denormal: even
  EXPECT_EQ(float_to_half(0x1.000002p-25f), 1);
}

TEST(Bfloat16, rounds_to_nearest_even_and_keeps_nan) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const float value = std::bit_cast<float>(bits);
    const std::uint16_t rounded = float_to_bfloat16(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bfloat16_to_float(rounded)));
      continue;
    }
    const auto below = static_cast<std::uint16_t>(bits >> 16);
    const std::uint32_t rest = bits & 0xffff;
    const bool up = rest > 0x8000 || (rest == 0x8000 && (below & 1) != 0);
    EXPECT_EQ(rounded, static_cast<std::uint16_t>(below + (up ? 1 : 0)));
  }
}

TEST(E8m0, is_unsigned_with_bias_127_and_has_two_small_ends) {
  EXPECT_EQ(e8m0_to_float(127), 1.0f);
  EXPECT_EQ(e8m0_to_float(128), 2.0f);
  EXPECT_EQ(e8m0_to_float(1), 0x1p-126f);
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127f);
  EXPECT_EQ(e8m0_to_float(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

}  // namespace
}  // namespace rocmforge
