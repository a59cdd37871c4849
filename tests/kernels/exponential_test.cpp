#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/launch/cpu/isa.h"

namespace rocmforge {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Distance in representable floats; both are positive.
std::int64_t units_apart(float a, float b) {
  return std::abs(std::int64_t{std::bit_cast<std::int32_t>(a)} - std::int64_t{std::bit_cast<std::int32_t>(b)});
}

class Exponential : public testing::TestWithParam<const CpuBodies*> {
 protected:
  std::vector<float> apply(const std::vector<float>& x) {
    std::vector<float> out(x.size(), -1.0f);
    GetParam()->table.exponential(x.data(), static_cast<std::int64_t>(x.size()), out.data());
    return out;
  }
};

std::vector<const CpuBodies*> runnable_bodies() {
  std::vector<const CpuBodies*> bodies;
  const DeviceInfo device = cpu_device_info();
  for (const CpuBodies& candidate : cpu_bodies()) {
    if (check_isa(candidate, device).ok) {
      bodies.push_back(&candidate);
    }
  }
  return bodies;
}

TEST_P(Exponential, IsRightOverTheWholeFloatRange) {
  // Every 97th bit pattern of either sign, from 0 to infinity.
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 0x7f800000u; bits += 97 * 16) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(std::bit_cast<float>(bits | 0x80000000u));
  }
  // More of the range in which the result is neither 0, 1 nor infinity.
  for (int i = -1100000; i <= 900000; ++i) {
    x.push_back(static_cast<float>(i) * 1e-4f);
  }
  const std::vector<float> out = apply(x);
  std::int64_t worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float expected = static_cast<float>(std::exp(double{x[i]}));
    ASSERT_LE(units_apart(out[i], expected), 2) << "exp(" << x[i] << ") gave " << out[i];
    worst = std::max(worst, units_apart(out[i], expected));
  }
  RecordProperty("worst_units", static_cast<int>(worst));
}

TEST_P(Exponential, EndsOfTheRange) {
  const float largest = 88.72283f;  // e^88.72283 is the last below the largest float
  const std::vector<float> out =
      apply({-infinity, infinity, std::nanf(""), 0.0f, -0.0f, -1e38f, 1e38f, 88.73f, largest, -103.0f});
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], infinity);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 1.0f);
  EXPECT_EQ(out[4], 1.0f);
  EXPECT_EQ(out[5], 0.0f);
  EXPECT_EQ(out[6], infinity);
  EXPECT_EQ(out[7], infinity);
  EXPECT_LT(out[8], infinity);
  EXPECT_GT(out[9], 0.0f) << "denormal results are kept";
}

TEST_P(Exponential, LanesAndTailsAreAlike) {
  for (std::size_t count = 1; count <= 40; ++count) {
    const std::vector<float> out = apply(std::vector<float>(count, -1.7f));
    for (const float value : out) {
      ASSERT_EQ(value, out[0]);
      ASSERT_NEAR(value, 0.18268352f, 1e-7f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Exponential, testing::ValuesIn(runnable_bodies()),
                         [](const auto& test) { return std::string(name(test.param->isa)); });

}  // namespace
}  // namespace rocmforge
