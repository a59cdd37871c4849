#include "audio/log_mel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "error_of.h"
#include "paths.h"
#include "sound_signal.h"

namespace rocmforge {
namespace {

using test::signal;

struct Heard {
  std::uint32_t seed = 0, samples = 0, bands = 0, frames = 0;
  float behind = 0.0f;
  std::vector<float> values{};
};

std::vector<Heard> goldens() {
  std::ifstream file(test::test_data("golden/audio/spectrograms.bin"), std::ios::binary);
  const auto take = [&](void* to, std::size_t size) {
    file.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
  };
  std::uint32_t count = 0;
  take(&count, sizeof count);
  std::vector<Heard> all(count);
  for (Heard& one : all) {
    for (std::uint32_t* number : {&one.seed, &one.samples, &one.bands, &one.frames}) {
      take(number, sizeof *number);
    }
    take(&one.behind, sizeof one.behind);
    one.values.resize(std::size_t{one.frames} * one.bands);
    take(one.values.data(), one.values.size() * sizeof(float));
  }
  EXPECT_TRUE(file.good());
  return all;
}

TEST(LogMel, EqualsWhispersFeatureExtractor) {
  const std::vector<Heard> all = goldens();
  ASSERT_EQ(all.size(), 20U);
  float most = 0.0f;
  for (const Heard& golden : all) {
    const LogMel mel = log_mel(signal(golden.seed, golden.samples), static_cast<std::int32_t>(golden.bands), 3000);
    ASSERT_EQ(mel.frames(), 3000);
    for (std::size_t i = 0; i < mel.values.size(); ++i) {
      const float expected = i < golden.values.size() ? golden.values[i] : golden.behind;
      most = std::max(most, std::abs(mel.values[i] - expected));
    }
  }
  EXPECT_LE(most, 1e-4f);
}

TEST(LogMel, LongerRecordingsHaveSeveralPieces) {
  const std::vector<float> samples = signal(3, 8 * 160 + 1);
  const LogMel mel = log_mel(samples, 80, 8);
  EXPECT_EQ(mel.frames(), 16);
  // Frames do not depend on where a piece ends, but for those that are mirrored at the end of all.
  const LogMel in_one = log_mel(samples, 80, 32);
  EXPECT_EQ(in_one.frames(), 32);
  EXPECT_TRUE(std::equal(mel.values.begin(), mel.values.begin() + 12 * 80, in_one.values.begin()));
}

TEST(LogMel, ShortSoundsAndSilence) {
  for (const std::size_t count : {1, 2, 159, 160, 161, 320}) {
    const LogMel mel = log_mel(std::vector<float>(count, 0.0f), 80, 2);
    EXPECT_EQ(mel.frames(), count <= 320 ? 2 : 4) << count;
    EXPECT_TRUE(std::ranges::all_of(mel.values, [](float value) { return value == -1.5f; })) << count;
  }
  EXPECT_THROW(log_mel({}, 80, 3000), LogicError);
}

}  // namespace
}  // namespace rocmforge
