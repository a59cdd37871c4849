#include "options/suggest.h"

#include <gtest/gtest.h>

namespace rocmforge::app {
namespace {

TEST(Suggest, FindsTheNearestWord) {
  const std::vector<std::string> commands = {"run", "chat", "inspect", "models", "bench", "devices"};
  EXPECT_EQ(nearest("rnu", commands), "run");
  EXPECT_EQ(nearest("chta", commands), "chat");
  EXPECT_EQ(nearest("model", commands), "models");
  EXPECT_EQ(nearest("benchmark", commands), "bench");
  EXPECT_EQ(nearest("inspcet", commands), "inspect");
  EXPECT_EQ(nearest("serve", commands), "");
  EXPECT_EQ(nearest("x", commands), "");
  EXPECT_EQ(nearest("", commands), "");
  EXPECT_EQ(nearest(std::string(100'000, 'r'), commands), "") << "as fast as for a short word";
}

TEST(Suggest, KnowsOptionsWithTheirDashes) {
  const std::vector<std::string> options = {"-n", "--max-tokens", "--temp", "--top-k", "--top-p"};
  EXPECT_EQ(nearest("--temperature", options), "--temp");
  EXPECT_EQ(nearest("-max-tokens", options), "--max-tokens");
  EXPECT_EQ(nearest("--top-q", options), "--top-k");
  EXPECT_EQ(nearest("--port", options), "");
}

}  // namespace
}  // namespace rocmforge::app
