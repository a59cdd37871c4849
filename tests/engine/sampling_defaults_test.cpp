#include "engine/sampling_defaults.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "schedule/sampling_numbers.h"
#include "weights/gguf_builder.h"

namespace rocmforge::sampling_defaults_test {
namespace {

SamplingParams defaults_of(GgufBuilder builder) {
  const std::vector<std::byte> bytes = builder.string("general.architecture", "llama").build();
  return sampling_defaults(GgufFile::from_memory(bytes, "made.gguf"));
}

std::string refusal(const GgufBuilder& builder) {
  try {
    defaults_of(builder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SamplingDefaults, AreTheFilesWhereItHasSome) {
  const SamplingParams plain = defaults_of({});
  EXPECT_EQ(plain.temperature, SamplingParams{}.temperature);
  EXPECT_EQ(plain.top_k, SamplingParams{}.top_k);
  const SamplingParams params =
      defaults_of(GgufBuilder{}
                      .scalar("general.sampling.temp", GgufType::f32, 0.6f)
                      .scalar("general.sampling.top_k", GgufType::i32, 20)
                      .scalar("general.sampling.top_p", GgufType::f32, 0.0f)
                      .scalar("general.sampling.min_p", GgufType::f32, 0.0f)
                      .scalar("general.sampling.penalty_repeat", GgufType::f32, 1.05f)
                      .scalar("general.sampling.penalty_last_n", GgufType::i32, 128)
                      .scalar("general.sampling.mirostat", GgufType::i32, 2)
                      .scalar("general.sampling.mirostat_tau", GgufType::f32, 4.0f)
                      .pair("general.sampling.sequence", GgufType::string, Bytes().text("penalties;min_p;temperature")));
  EXPECT_EQ(params.mirostat, 2);
  EXPECT_EQ(params.mirostat_tau, 4.0f);
  EXPECT_EQ(names_of(params.order), (std::vector<std::string_view>{"penalties", "min_p", "temperature"}));
  EXPECT_EQ(params.temperature, 0.6f);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_GT(params.top_p, 0.0f) << "the best token alone";
  EXPECT_LT(params.top_p, 1e-30f);
  EXPECT_EQ(params.min_p, 0.0f);
  EXPECT_EQ(params.repeat_penalty, 1.05f);
  EXPECT_EQ(params.repeat_last_n, 128);
  EXPECT_EQ(params.typical_p, SamplingParams{}.typical_p);
  EXPECT_EQ(params.validate(), "");
}

TEST(SamplingDefaults, WhatCannotBeIsNamed) {
  EXPECT_NE(refusal(GgufBuilder{}.scalar("general.sampling.top_p", GgufType::f32, 1.5f))
                .find("general.sampling.top_p is 1.5, must be 0 to 1"),
            std::string::npos);
  EXPECT_NE(refusal(GgufBuilder{}.scalar("general.sampling.temp", GgufType::f32, std::numeric_limits<float>::quiet_NaN()))
                .find("general.sampling.temp is nan"),
            std::string::npos);
  EXPECT_NE(refusal(GgufBuilder{}.scalar("general.sampling.top_k", GgufType::f32, 2.5f)).find("a whole number"),
            std::string::npos);
  EXPECT_NE(refusal(GgufBuilder{}.pair("general.sampling.temp", GgufType::string, Bytes().text("hot")))
                .find("general.sampling.temp"),
            std::string::npos);
  EXPECT_NE(refusal(GgufBuilder{}.pair("general.sampling.sequence", GgufType::string, Bytes().text("top_k;mine")))
                .find("general.sampling.sequence names 'mine', which is no sampler"),
            std::string::npos);
}

TEST(SamplingNumbers, TakeWhatOthersWriteForOff) {
  for (const SamplingNumber& number : sampling_numbers()) {
    SamplingParams params;
    for (const double value : {number.least, number.most, number.get(SamplingParams{})}) {
      number.set(params, value);
      EXPECT_EQ(params.validate(), "") << number.name << " " << value;
    }
    EXPECT_EQ(number.get(params), number.get(SamplingParams{})) << number.name;
  }
}

TEST(SamplingNumbers, ChoicesLeaveTheRestAlone) {
  SamplingChoices choices;
  choices.values[0] = 0.0;
  SamplingParams params;
  params.top_k = 3;
  choices.apply(params);
  EXPECT_EQ(params.temperature, 0.0f);
  EXPECT_EQ(params.top_k, 3);
}

}  // namespace
}  // namespace rocmforge::sampling_defaults_test
