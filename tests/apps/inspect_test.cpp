#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "apps/fake_card.h"
#include "apps/one_screen.h"
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
  const json without =
      json::parse(run_program({"inspect", file, "--json", "--plan", "--mtp", "off", "--device", "cpu"}).out);
  const json with = json::parse(run_program({"inspect", file, "--json", "--plan", "--device", "cpu"}).out);
  EXPECT_EQ(with.at("model").at("mtp_blocks"), 1);
  EXPECT_EQ(with.at("model"), without.at("model"));
  EXPECT_EQ(with.at("memory").at("kv_bytes_per_token").get<int>() * 2,
            without.at("memory").at("kv_bytes_per_token").get<int>() * 3)
      << "three layers keep K and V in place of two";
  EXPECT_EQ(without.dump().find("nextn.eh_proj_e"), std::string::npos);
  EXPECT_NE(with.dump().find("nextn.eh_proj_e"), std::string::npos);
  const ProgramResult refused =
      run_program({"inspect", folder + "glm4moe.gguf", "--plan", "--mtp", "on", "--device", "cpu"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("has no MTP blocks: key 'glm4moe.nextn_predict_layers' is missing or 0"), std::string::npos)
      << refused.err;
}

TEST(Inspect, ThePlanHasTheImageEncodersMemoryAndKernels) {
  const std::string folder = test::test_data("golden/models/vision/");
  const auto with = [&](const std::string& form, const std::vector<std::string>& encoder) {
    std::vector<std::string> command = {"inspect", folder + "pixtral.gguf", "--device", "cpu", form};
    command.insert(command.end(), encoder.begin(), encoder.end());
    return run_program(command).out;
  };
  const std::vector<std::string> eyes = {"--mmproj", folder + "mmproj-pixtral.gguf"};
  const std::string shown = with("--plan", eyes);
  EXPECT_NE(shown.find("mmproj-pixtral.gguf, images of up to 11 tokens, weights "), std::string::npos) << shown;
  EXPECT_NE(shown.find("mm.patch_merger"), std::string::npos) << shown;
  const json sees = json::parse(with("--json", eyes));
  const json blind = json::parse(with("--json", {"--no-mmproj"}));
  EXPECT_FALSE(blind.contains("image_encoder"));
  const json& encoder = sees.at("image_encoder");
  EXPECT_GT(encoder.at("weight_bytes"), 0);
  EXPECT_GT(encoder.at("workspace_bytes"), 0);
  EXPECT_EQ(sees.at("memory").at("weights_bytes").get<std::int64_t>(),
            blind.at("memory").at("weights_bytes").get<std::int64_t>() + encoder.at("weight_bytes").get<std::int64_t>());
}

TEST(Inspect, ThePlanHasTheAudioEncodersMemoryAndKernels) {
  const std::string folder = test::test_data("golden/models/audio/");
  const auto with = [&](const std::string& form) {
    return run_program(
               {"inspect", folder + "qwen2a.gguf", "--device", "cpu", form, "--mmproj", folder + "mmproj-qwen2a.gguf"})
        .out;
  };
  const std::string shown = with("--plan");
  EXPECT_THAT(shown, testing::HasSubstr("mmproj-qwen2a.gguf, pieces of 0.64 s, of up to 16 tokens, weights "));
  EXPECT_THAT(shown, testing::HasSubstr("a.conv1d.1"));
  const json heard = json::parse(with("--json"));
  EXPECT_FALSE(heard.contains("image_encoder"));
  EXPECT_GT(heard.at("audio_encoder").at("workspace_bytes"), 0);
}

/// `inspect --plan` of the demo model on a card that is not there.
class InspectOnACard : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_demo_model()) {
      GTEST_SKIP() << demo_model() << " is absent";
    }
  }
  std::string plan(std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", demo_model().string(), "--plan"});
    const ProgramResult result = run_program(card.with_kernels(more), "", card.environment());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }

  const FakeCard card{"runtime"};
};

/// Without a saved check of the card a launch each is taken, and the plan says so.
TEST_F(InspectOnACard, ThePlanSaysWhetherLaunchesAreMergedAndWhy) {
  EXPECT_THAT(plan({}),
              testing::HasSubstr("\nmerged launches of products of one token: off (no saved check of this device, its "
                                 "driver and kernels (rocmforge check --save))\n"));
  EXPECT_THAT(plan({"--merge-launches", "on"}), testing::HasSubstr("one token: on (--merge-launches on)\n"));
  const json merged = json::parse(plan({"--merge-launches", "off", "--json"})).at("plan").at("merged_launches");
  EXPECT_EQ(merged.at("on"), false);
  EXPECT_EQ(merged.at("why"), "--merge-launches off");
}

TEST(Inspect, TellsLayersByKindExpertsAndWindow) {
  const std::string folder = test::test_data("golden/models/");
  const json experts = json::parse(run_program({"inspect", folder + "qwen3moe.gguf", "--json", "--device", "cpu"}).out);
  const json& part = experts.at("model").at("feed_forward")[0];
  EXPECT_EQ(part.at("experts"), experts.at("metadata").at("qwen3moe.expert_count"));
  EXPECT_EQ(part.at("experts_used"), experts.at("metadata").at("qwen3moe.expert_used_count"));
  EXPECT_LT(experts.at("model").at("active_parameters"), experts.at("parameters"));
  const std::string text = run_program({"inspect", folder + "qwen3moe.gguf", "--device", "cpu"}).out;
  EXPECT_NE(text.find(" active in a token"), std::string::npos) << text;
  expect_one_screen(text);
  const json windowed = json::parse(run_program({"inspect", folder + "gemma3.gguf", "--json", "--device", "cpu"}).out);
  const json& kinds = windowed.at("model").at("attention");
  ASSERT_EQ(kinds.size(), 2u) << kinds;
  EXPECT_NE(kinds[0].at("window"), kinds[1].at("window"));
  EXPECT_EQ(kinds[0].at("layers").get<int>() + kinds[1].at("layers").get<int>(), windowed.at("model").at("layers"));
  EXPECT_NE(run_program({"inspect", folder + "gemma3.gguf", "--device", "cpu"}).out.find("over a window of "),
            std::string::npos);
}

TEST(Inspect, TellsLayersThatDoNotAttendAndThoseThatShareLatents) {
  const std::string folder = test::test_data("golden/models/");
  const json mixed = json::parse(run_program({"inspect", folder + "lfm2.gguf", "--json", "--device", "cpu"}).out);
  const json& model = mixed.at("model");
  EXPECT_EQ(model.at("attention").at(0).at("layers"), 1);
  EXPECT_EQ(model.at("convolution").at(0).at("layers"), 3);
  const std::string text = run_program({"inspect", folder + "lfm2.gguf", "--device", "cpu"}).out;
  EXPECT_NE(text.find("3 layers of short convolutions over 3 positions"), std::string::npos) << text;
  EXPECT_NE(text.find("\nstate "), std::string::npos) << text;
  EXPECT_EQ(text.find(" 0 KV heads"), std::string::npos) << text;
  expect_one_screen(text);
  const std::string scans = run_program({"inspect", folder + "nemotron_h.gguf", "--device", "cpu"}).out;
  EXPECT_NE(scans.find("2 layers of Mamba-2 with 4 heads of 16, rows of state of 12 and 4 taps"), std::string::npos)
      << scans;
  EXPECT_NE(scans.find("2 layers of width 40"), std::string::npos) << scans;
  expect_one_screen(scans);
  // Of 2 layers 6 matrices of 12 by 8 floats each, 2,304 bytes, and 4 positions of 104 channels, 1,664 bytes, up to the
  // next 256.
  const json nets = json::parse(run_program({"inspect", folder + "qwen35.gguf", "--json", "--device", "cpu"}).out);
  EXPECT_EQ(nets.at("devices").at(0).at("slot_bytes"), 2 * (2304 + 1792));
  const std::string states = run_program({"inspect", folder + "qwen35.gguf", "--device", "cpu"}).out;
  EXPECT_NE(states.find("\nstate "), std::string::npos) << states;
  EXPECT_NE(states.find("8.00 KiB in each of "), std::string::npos) << states;
  expect_one_screen(states);
  EXPECT_NE(run_program({"inspect", folder + "deepseek-v3.gguf", "--device", "cpu"}).out.find("over latent rows of 64"),
            std::string::npos);
}

TEST(Inspect, NeedsNoTokenizer) {
  const ProgramResult result = run_program({"inspect", test::test_data("golden/models/llama3.gguf")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("\narchitecture   llama\n"), std::string::npos) << result.out;
}

TEST(Inspect, ThePlanTellsTheBytesOfEachRank) {
  const std::string file = test::test_data("golden/models/llama-gqa4.gguf");
  const auto with = [&](const char* ranks, const char* form) {
    return run_program({"inspect", file, form, "--device", "cpu", "--ranks", ranks});
  };
  EXPECT_THAT(with("2", "--plan").out,
              testing::ContainsRegex("\nranks\nrank +weights +workspace +KV per 1000 tokens\n.*0 "));
  const json ranks = json::parse(with("2", "--json").out).at("ranks");
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks.at(0).at("kv_bytes_per_token"), ranks.at(1).at("kv_bytes_per_token"));
  EXPECT_GT(ranks.at(1).at("weight_bytes"), 0);
  EXPECT_FALSE(json::parse(with("1", "--json").out).contains("ranks"));
  const ProgramResult refused = with("3", "--plan");
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, testing::HasSubstr("layer 0: 8 query heads can't be shared by 3 ranks"));
}

TEST_F(InspectOnACard, RanksAreGpusThatAreEachNamedOnce) {
  const auto refusal = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"inspect", demo_model().string(), "--plan"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProgramResult refused = run_program(card.with_kernels(arguments), "", card.environment());
    EXPECT_NE(refused.exit_code, 0);
    return refused.err;
  };
  EXPECT_THAT(refusal({"--ranks", "2", "--device", "hip:0"}), testing::HasSubstr("2 ranks need as many GPUs, each named"));
  EXPECT_THAT(refusal({"--device", "cpu,cpu", "--split", "tensor"}), testing::HasSubstr("2 ranks need as many GPUs"));
  EXPECT_THAT(refusal({"--device", "hip:0,hip:0", "--split", "tensor"}), testing::HasSubstr("hip:0 is named twice"));
  EXPECT_THAT(refusal({"--device", "hip:0,hip:0"}), testing::HasSubstr("hip:0 is named twice"));
  EXPECT_THAT(refusal({"--device", "hip:0,hip:1", "--split", "none"}),
              testing::HasSubstr("--device names 2 devices, and --split none takes one"));
  EXPECT_THAT(refusal({"--device", "hip:0,hip:1", "--split", "layer", "--ranks", "2"}),
              testing::HasSubstr("--split layer divides the layers"));
  EXPECT_THAT(refusal({"--device", "hip:0", "--split", "layer"}),
              testing::HasSubstr("layers are divided among several devices, each named"));
  EXPECT_THAT(refusal({"--device", "hip:0", "--tensor-split", "1,1"}),
              testing::HasSubstr("layers are divided among several devices, each named"));
  EXPECT_THAT(refusal({"--device", "hip:0,hip:1", "--tensor-split", "3,x"}),
              testing::HasSubstr("--tensor-split is '3,x', must be numbers with commas between them"));
  EXPECT_THAT(refusal({"--device", "hip:0,hip:1", "--split", "tensor", "--tensor-split", "3,1"}),
              testing::HasSubstr("--tensor-split divides layers"));
  EXPECT_THAT(refusal({"--device", "cpu,cpu"}), testing::HasSubstr("several devices that share a model are GPUs"));
  EXPECT_THAT(refusal({"--device", "hip:0,hip:1", "--split", "tensor", "--ranks", "3"}),
              testing::HasSubstr("--device names 2 devices, for at most 16 ranks, and --ranks 3"));
}

TEST_F(InspectOnACard, ThePlanSaysWhereThePartsOfASplitModelAre) {
  EXPECT_EQ(plan({}).find("\nplacement: "), std::string::npos) << "it fits";
  EXPECT_THAT(plan({"-ngl", "2"}), testing::ContainsRegex("\nplacement: 2 of [0-9]+ layers on the GPU, as asked for: "));
  EXPECT_THAT(plan({"--gpu-memory", "16", "--fit-margin", "0"}),
              testing::HasSubstr(" layers on the GPU, as the GPU's memory can't hold all: "));
  const ProgramResult screen =
      run_program(card.with_kernels({"inspect", demo_model().string(), "--gpu-memory", "16", "--device", "hip:0"}), "",
                  card.environment());
  EXPECT_THAT(screen.out, testing::ContainsRegex("fits beside the CPU, needs .* of 16.0 MiB and .* of host memory"));
  const json placement = json::parse(plan({"-ot", "^output=cpu", "--json"})).at("placement");
  const json& parts = placement.at("parts");
  EXPECT_EQ(parts.front().at("part"), "embedding");
  EXPECT_EQ(parts.front().at("device"), "hip");
  EXPECT_EQ(parts.back().at("part"), "output");
  EXPECT_EQ(parts.back().at("device"), "cpu");
  EXPECT_GT(parts.back().at("read_bytes"), 0);
  EXPECT_GT(placement.at("seconds"), 0.0);
  EXPECT_GT(placement.at("host_bytes"), parts.back().at("weight_bytes"));
  const ProgramResult refused =
      run_program(card.with_kernels({"run", demo_model().string(), "-p", "hi", "--gpu-layers", "all", "--gpu-memory", "1"}),
                  "", card.environment());
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, testing::HasSubstr("0.00 GiB are available"));
}

}  // namespace
}  // namespace rocmforge
