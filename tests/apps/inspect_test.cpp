#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "apps/fake_card.h"
#include "apps/program.h"
#include "paths.h"

namespace rocmforge {
namespace {

using nlohmann::json;

TEST(Inspect, TellsTheSizeOfLatents) {
  const std::string folder = test::test_data("golden/models/");
  const std::string latent = run_program({"inspect", folder + "nemotron_h_moe-latent.gguf", "--device", "cpu"}).out;
  EXPECT_NE(latent.find("2 layers of 6 experts of width 24 on latents of 20, 3 active, 24 shared\n"), std::string::npos)
      << latent;
}

TEST(Inspect, TellsAndCountsMtpBlocks) {
  const std::string folder = test::test_data("golden/models/");
  const std::string file = folder + "mtp/glm4moe.gguf";
  const std::string text = run_program({"inspect", file, "--device", "cpu"}).out;
  EXPECT_NE(text.find("\nMTP            1 block that predicts further tokens"), std::string::npos) << text;
  EXPECT_NE(text.find("2 layers, "), std::string::npos) << text;
  const json without = json::parse(run_program({"inspect", file, "--json", "--plan", "--device", "cpu"}).out);
  const json with = json::parse(run_program({"inspect", file, "--json", "--plan", "--mtp", "--device", "cpu"}).out);
  EXPECT_EQ(with.at("model").at("mtp_blocks"), 1);
  EXPECT_EQ(with.at("model"), without.at("model"));
  EXPECT_EQ(with.at("memory").at("kv_bytes_per_token").get<int>() * 2,
            without.at("memory").at("kv_bytes_per_token").get<int>() * 3)
      << "three layers keep K and V in place of two";
  EXPECT_EQ(without.dump().find("nextn.eh_proj_e"), std::string::npos);
  EXPECT_NE(with.dump().find("nextn.eh_proj_e"), std::string::npos);
  const ProgramResult refused = run_program({"inspect", folder + "glm4moe.gguf", "--plan", "--mtp", "--device", "cpu"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("has no MTP blocks: key 'glm4moe.nextn_predict_layers' is missing or 0"), std::string::npos)
      << refused.err;
}

/// Without a saved check of the card a launch each is taken, and the plan says so.
TEST(Inspect, ThePlanSaysWhetherLaunchesAreMergedAndWhy) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const FakeCard card("runtime");
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", demo_model().string(), "--plan"});
    const ProgramResult result = run_program(card.with_kernels(more), "", card.environment());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_THAT(plan({}),
              testing::HasSubstr("\nmerged launches of products of one token: off (no saved check of this device, its "
                                 "driver and kernels (rocmforge check --save))\n"));
  EXPECT_THAT(plan({"--merge-launches", "on"}), testing::HasSubstr("one token: on (--merge-launches on)\n"));
  const json merged = json::parse(plan({"--merge-launches", "off", "--json"})).at("plan").at("merged_launches");
  EXPECT_EQ(merged.at("on"), false);
  EXPECT_EQ(merged.at("why"), "--merge-launches off");
}

}  // namespace
}  // namespace rocmforge
