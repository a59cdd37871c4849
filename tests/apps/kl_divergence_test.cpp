// perplexity's comparison with the probabilities of another run, on the demo model.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/program.h"
#include "paths.h"

namespace rocmforge {
namespace {

using nlohmann::json;

/// What a command that must succeed prints.
std::string output_of(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

json json_of(const std::vector<std::string>& arguments) { return json::parse(output_of(arguments)); }

TEST(KlDivergence, ProbabilitiesAreComparedWithThoseInAFile) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const std::string text = test::test_data("data/demo_heldout.txt");
  const TemporaryFolder folder;
  const std::string base = folder.write("base.kld", "");
  const auto compared = [&](const std::string& type) {
    return json_of({"perplexity", "--kl-divergence", "--kl-divergence-base", base, "--json", "--kv-type", type});
  };
  const json first = json_of(
      {"perplexity", "-f", text, "--chunks", "2", "-c", "128", "--json", "--kv-type", "f32", "--kl-divergence-base", base});
  EXPECT_FALSE(first.contains("kl_divergence"));
  const json same = compared("f32");
  EXPECT_EQ(same.at("perplexity"), first.at("perplexity")) << "the file has the text";
  EXPECT_EQ(same.at("scored_tokens"), 2 * 63);
  EXPECT_NEAR(same.at("kl_divergence").at("mean"), 0.0, 5e-6) << "but for the 16 bits of each probability";
  EXPECT_GE(same.at("kl_divergence").at("same_top"), 0.97) << "two may share the largest of these 16 bits";
  const json coarse = compared("q4_0"), fine = compared("q8_0");
  EXPECT_GT(fine.at("kl_divergence").at("mean"), same.at("kl_divergence").at("mean"));
  EXPECT_GT(coarse.at("kl_divergence").at("mean"), 3.0 * fine.at("kl_divergence").at("mean").get<double>());
  EXPECT_GE(coarse.at("kl_divergence").at("p99"), coarse.at("kl_divergence").at("median"));
  EXPECT_NE(output_of({"perplexity", "--kl-divergence", "--kl-divergence-base", base}).find("KL divergence: mean 0.0"),
            std::string::npos);

  std::filesystem::resize_file(base, std::filesystem::file_size(base) - 1);
  const auto refusal = [&] { return run_program({"perplexity", "--kl-divergence", "--kl-divergence-base", base}).err; };
  EXPECT_NE(refusal().find(base + ": is cut off"), std::string::npos) << refusal();
  std::filesystem::rename(base, base + ".moved");
  EXPECT_NE(refusal().find(base + ": can't be read"), std::string::npos) << refusal();
  std::filesystem::rename(base + ".moved", base);
  std::filesystem::resize_file(base, 22);
  EXPECT_NE(refusal().find(base + ": "), std::string::npos) << refusal();
  static_cast<void>(folder.write("base.kld", "a text that is no such file"));
  EXPECT_NE(refusal().find("no file of log probabilities"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace rocmforge
