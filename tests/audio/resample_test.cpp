#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "audio/sound.h"
#include "base/error.h"

namespace rocmforge {
namespace {

std::vector<float> tone(double hertz, int rate, std::size_t count) {
  std::vector<float> samples;
  for (std::size_t i = 0; i < count; ++i) {
    samples.push_back(static_cast<float>(std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / rate)));
  }
  return samples;
}

/// Of the middle half: at both ends the tone begins and ends.
double most_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0.0;
  for (std::size_t i = a.size() / 4; i < a.size() * 3 / 4; ++i) {
    most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return most;
}

TEST(Resample, KeepsWhatTheNewRateHasRoomFor) {
  for (const int rate : {8000, 11025, 22050, 24000, 32000, 44100, 48000, 96000, 15999}) {
    for (const double hertz : {100.0, 1000.0, 3300.0}) {
      const std::vector<float> out = resample(tone(hertz, rate, static_cast<std::size_t>(rate) / 5), rate, 16000);
      ASSERT_NEAR(static_cast<double>(out.size()), 3200, 1) << rate;
      EXPECT_LE(most_difference(out, tone(hertz, 16000, out.size())), 1e-3) << rate << " " << hertz;
    }
  }
}

TEST(Resample, DropsWhatWouldBecomeAnotherTone) {
  for (const double hertz : {8500.0, 10000.0, 15000.0}) {
    const std::vector<float> out = resample(tone(hertz, 44100, 8820), 44100, 16000);
    EXPECT_LE(most_difference(out, std::vector<float>(out.size(), 0.0f)), 1e-3) << hertz;
  }
}

TEST(Resample, SameRateSameSamples) {
  const std::vector<float> samples = tone(440, 16000, 100);
  EXPECT_EQ(resample(samples, 16000, 16000), samples);
  EXPECT_TRUE(resample(std::vector<float>(2), 48000, 16000).empty());
  EXPECT_THROW(resample(samples, 0, 16000), LogicError);
}

TEST(Resample, TellsItsMemory) {
  const std::vector<float> out = resample(std::vector<float>(4410), 44100, 16000);
  EXPECT_GE(resampled_bytes(4410, 44100, 16000), static_cast<std::int64_t>(out.size() * sizeof(float)));
  EXPECT_LE(resampled_bytes(0, 192'000, 16000) + resampled_bytes(0, 191'999, 16000), std::int64_t{64} << 20);
}

}  // namespace
}  // namespace rocmforge
