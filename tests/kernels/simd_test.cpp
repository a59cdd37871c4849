// The generic instruction set's vectors and the sixteen numbers of a group, which other sets have by intrinsics: conversions
// are exact for every code, at any alignment. Here the instruction set is a namespace of this file.
#define ROCMFORGE_ISA generic_of_simd_test
#define ROCMFORGE_ISA_generic 1

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "kernels/tile/cpu/matmul_simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<float> lanes(16);
  store_floats(lanes.data(), values);
  std::vector<std::uint32_t> bits;
  for (const float lane : lanes) {
    bits.push_back(std::bit_cast<std::uint32_t>(lane));
  }
  return bits;
}

/// 16 codes from `first` on, at an odd address.
struct OddCodes {
  std::byte bytes[33];
  explicit OddCodes(std::uint32_t first) {
    for (std::uint32_t i = 0; i < 16; ++i) {
      const auto code = static_cast<std::uint16_t>(first + i);
      std::memcpy(bytes + 1 + 2 * i, &code, sizeof code);
    }
  }
  [[nodiscard]] const void* begin() const { return bytes + 1; }
};

TEST(Simd, ConvertsEveryHalfExactly) {
  for (std::uint32_t first = 0; first < 65536; first += 16) {
    const std::vector<std::uint32_t> bits = bits_of(load_halves(OddCodes(first).begin()));
    for (std::uint32_t i = 0; i < 16; ++i) {
      const float value = half_to_float(static_cast<std::uint16_t>(first + i));
      ASSERT_EQ(bits[i], std::bit_cast<std::uint32_t>(value)) << first + i;
    }
  }
}

TEST(Simd, SeparatesPairsOfBfloats) {
  std::byte bytes[65];
  for (std::uint32_t i = 0; i < 32; ++i) {
    const auto code = static_cast<std::uint16_t>(0x3f80 + 37 * i);
    std::memcpy(bytes + 1 + 2 * i, &code, sizeof code);
  }
  const ColumnPair pair = load_bfloat_pairs(bytes + 1);
  const std::vector<std::uint32_t> first = bits_of(pair.first);
  const std::vector<std::uint32_t> second = bits_of(pair.second);
  for (std::uint32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(first[i], (0x3f80u + 74 * i) << 16) << i;
    EXPECT_EQ(second[i], (0x3f80u + 74 * i + 37) << 16) << i;
  }
}

TEST(Simd, RoundsToEvenAndFindsTheLargest) {
  float values[16];
  for (int i = 0; i < 16; ++i) {
    values[i] = 0.5f * static_cast<float>(i - 12);
  }
  const Floats floats = load_floats(values);
  constexpr int rounded[16] = {-6, -6, -5, -4, -4, -4, -3, -2, -2, -2, -1, 0, 0, 0, 1, 2};
  const Ints ints = round_to_ints(floats);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(ints.v[i], rounded[i]) << values[i];
  }
  EXPECT_EQ(largest_magnitude(floats, zero_floats()), 6.0f);
  EXPECT_EQ(bits_of(negate(zero_floats()))[0], 0x80000000u) << "the sign of a zero";
  EXPECT_EQ(bits_of(multiply_add(floats, floats_of(2.0f), floats_of(1.0f)))[15], std::bit_cast<std::uint32_t>(4.0f));
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
