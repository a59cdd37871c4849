#include "schedule/sampling_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "schedule/request.h"

namespace rocmforge {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::nanf("");

TEST(SamplingParams, DefaultsAndLimitsAreValid) {
  EXPECT_EQ(SamplingParams{}.validate(), "");
  SamplingParams params;
  params.temperature = 0.0f;
  params.top_k = 0;
  params.top_p = 1.0f;
  params.min_p = 0.0f;
  params.repeat_last_n = -1;
  params.logit_bias = {{0, -infinity}, {7, 100.0f}};
  EXPECT_EQ(params.validate(), "");
  params.temperature = -1.0f;  // greedy
  EXPECT_EQ(params.validate(), "");
}

TEST(SamplingParams, NamesTheParameterAndItsRange) {
  SamplingParams params;
  params.top_p = 1.5f;
  EXPECT_EQ(params.validate(), "top_p is 1.5, must be in (0, 1]");
}

TEST(SamplingParams, RefusesEveryParameterOutOfRange) {
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    return params.validate();
  };
  using testing::StartsWith;
  for (const float bad : {not_a_number, infinity, -infinity}) {
    EXPECT_THAT(message([&](auto& p) { p.temperature = bad; }), StartsWith("temperature is "));
    EXPECT_THAT(message([&](auto& p) { p.repeat_penalty = bad; }), StartsWith("repeat_penalty is "));
    EXPECT_THAT(message([&](auto& p) { p.frequency_penalty = bad; }), StartsWith("frequency_penalty is "));
    EXPECT_THAT(message([&](auto& p) { p.presence_penalty = bad; }), StartsWith("presence_penalty is "));
  }
  for (const float bad : {not_a_number, -0.1f, 1.1f}) {
    EXPECT_THAT(message([&](auto& p) { p.top_p = bad; }), StartsWith("top_p is "));
    EXPECT_THAT(message([&](auto& p) { p.min_p = bad; }), StartsWith("min_p is "));
    EXPECT_THAT(message([&](auto& p) { p.typical_p = bad; }), StartsWith("typical_p is "));
  }
  EXPECT_THAT(message([](auto& p) { p.top_p = 0.0f; }), StartsWith("top_p is 0"));
  EXPECT_THAT(message([](auto& p) { p.typical_p = 0.0f; }), StartsWith("typical_p is 0"));
  EXPECT_THAT(message([](auto& p) { p.top_k = -1; }), StartsWith("top_k is -1"));
  EXPECT_THAT(message([](auto& p) { p.repeat_last_n = -2; }), StartsWith("repeat_last_n is -2"));
  EXPECT_THAT(message([](auto& p) { p.repeat_penalty = 0.0f; }), StartsWith("repeat_penalty is 0"));
  EXPECT_THAT(message([](auto& p) { p.logit_bias[-3] = 1.0f; }), StartsWith("logit_bias names token -3"));
  EXPECT_THAT(message([](auto& p) { p.logit_bias[3] = infinity; }), StartsWith("logit_bias of token 3"));
  EXPECT_THAT(message([](auto& p) { p.logit_bias[3] = not_a_number; }), StartsWith("logit_bias of token 3"));
}

TEST(FinishReason, EveryReasonHasItsName) {
  EXPECT_EQ(name(FinishReason::none), "none");
  EXPECT_EQ(name(FinishReason::stop), "stop");
  EXPECT_EQ(name(FinishReason::length), "length");
  EXPECT_EQ(name(FinishReason::context), "context");
  EXPECT_EQ(name(FinishReason::cancelled), "cancelled");
  EXPECT_EQ(name(FinishReason::error), "error");
}

}  // namespace
}  // namespace rocmforge
