#include "device/step_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

#include "device/launch_trace.h"

namespace rocmforge {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(StepWatch, AStepThatDoesNotEndIsReportedOnceWithTheLastLaunches) {
  for (const char* name : {"a", "attn_qkv", "attention", "attn_output", "ffn_up"}) {
    launch_trace().note(name);
  }
  std::promise<std::string> reported;
  StepWatch watch([&](const std::string& line) { reported.set_value(line); });
  watch.begin(milliseconds(20));
  const std::string line = reported.get_future().get();
  EXPECT_THAT(line, HasSubstr("a step has not ended in 0.0 s; launched last: attn_qkv, attention, attn_output, ffn_up"));
}

TEST(StepWatch, StepsThatEndAreNotReported) {
  std::atomic<int> reports = 0;
  {
    StepWatch watch([&](const std::string&) { ++reports; });
    for (int step = 0; step < 50; ++step) {
      watch.begin(std::chrono::hours(1));
      watch.end();
    }
    watch.begin(std::chrono::hours(1));
    watch.begin(std::chrono::minutes(30));  // a running step is watched when the watch ends
  }
  EXPECT_EQ(reports, 0);
}

TEST(StepWatch, AShorterLimitBehindALongerOneCounts) {
  std::promise<std::string> reported;
  StepWatch watch([&](const std::string& line) { reported.set_value(line); });
  watch.begin(std::chrono::hours(1));
  watch.begin(milliseconds(20));
  EXPECT_THAT(reported.get_future().get(), HasSubstr("has not ended"));
}

TEST(LaunchTrace, KeepsTheLastNames) {
  LaunchTrace trace;
  EXPECT_TRUE(trace.last(4).empty());
  for (int i = 0; i < 40; ++i) {
    trace.note("kernel " + std::to_string(i));
  }
  EXPECT_EQ(trace.last(2), (std::vector<std::string>{"kernel 38", "kernel 39"}));
  EXPECT_EQ(trace.last(100).size(), 16u);
  EXPECT_EQ(trace.count(), 40u);
  trace.note(std::string(200, 'x'));
  EXPECT_EQ(trace.last(1).front(), std::string(63, 'x'));
}

}  // namespace
}  // namespace rocmforge
