#include "schedule/sampling_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
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

TEST(SamplerOrder, NamesAndLettersSayTheSame) {
  const SamplerOrder order = sampler_order_of_names("dry;min_p;typical_p;temperature");
  EXPECT_EQ(names_of(order), (std::vector<std::string_view>{"dry", "min_p", "typ_p", "temperature"}));
  EXPECT_EQ(names_of(sampler_order_of_letters("dmyt")), names_of(order));
  EXPECT_TRUE(sampler_order_of_letters("a").adaptive_p);
  EXPECT_EQ(names_of(SamplerOrder{}).size(), 9u);
}

TEST(SamplerOrder, WhatCannotBeIsNamed) {
  const auto problem = [](std::string_view names) {
    try {
      static_cast<void>(sampler_order_of_names(names));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problem("top_k;mine"), "names 'mine', which is no sampler of this server");
  EXPECT_EQ(problem("top_k;;min_p"), "names '', which is no sampler of this server");
  EXPECT_EQ(problem("top_k;penalties"), "names penalties behind a filter; penalties and dry come first");
  std::string many;
  for (int i = 0; i < 40; ++i) {
    many += "top_k;";
  }
  EXPECT_EQ(problem(many), "has more than 32 names");
}

TEST(SamplingParams, MirostatAndAdaptivePHaveBounds) {
  const auto problem = [](const auto& change) {
    SamplingParams params;
    change(params);
    return params.validate();
  };
  EXPECT_EQ(problem([](SamplingParams& p) { p.mirostat = 3; }), "mirostat is 3, must be 0 (off), 1 or 2");
  EXPECT_EQ(problem([](SamplingParams& p) { p.mirostat_tau = -1.0f; }),
            "mirostat_tau is -1, must be a finite number of at least 0");
  EXPECT_EQ(problem([](SamplingParams& p) { p.mirostat_eta = std::nanf(""); }),
            "mirostat_eta is nan, must be a finite number of at least 0");
  EXPECT_EQ(problem([](SamplingParams& p) { p.adaptive_target = 1.5f; }),
            "adaptive_target is 1.5, must be at most 1; below 0: off");
  EXPECT_EQ(problem([](SamplingParams& p) { p.adaptive_decay = 1.0f; }), "adaptive_decay is 1, must be in [0, 0.99]");
  EXPECT_EQ(problem([](SamplingParams& p) { p.min_keep = -1; }), "min_keep is -1, must be 0 or more");
  EXPECT_EQ(problem([](SamplingParams& p) {
              p.mirostat = 2;
              p.adaptive_target = 0.3f;
            }),
            "mirostat and adaptive_target cannot both be on");
}

}  // namespace
}  // namespace rocmforge
