#include "engine/step_time.h"

#include <gtest/gtest.h>

namespace rocmforge {
namespace {

using std::chrono::milliseconds;

TEST(StepTimeBound, GrowsWithTheWorkAndIsAtLeastHalfAMinute) {
  EXPECT_EQ(step_time_bound({}), milliseconds(30'000));
  const StepWork prompt{.parameters = 8e9, .tokens = 512.0};
  EXPECT_EQ(step_time_bound(prompt), milliseconds(30'000 + 8'192'000));
  StepWork on_gpu = prompt;
  on_gpu.on_gpu = true;
  EXPECT_EQ(step_time_bound(on_gpu), milliseconds(30'000 + 81'920));
  EXPECT_EQ(step_time_bound({.pairs = 1e6, .width = 1e5, .bytes_to_read = 2e8}), milliseconds(30'000 + 400'000 + 10'000));
}

}  // namespace
}  // namespace rocmforge
