// What holds for every source of drafts: the model's distributions stay as they are, and drafts that are wrong cost little.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include "engine/agreeing_drafts.h"
#include "engine/draft_answers.h"
#include "engine/draft_depth.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"

namespace rocmforge::draft_sources_test {
namespace {

using namespace draft_answers;

/// A model, and the file that drafts for it; "": none.
struct Files {
  std::string model;
  std::string draft{};
};

/// `right`: with drafts that are often right; `wrong`: with such as hardly ever are.
struct Source {
  const char* name;
  Files (*right)();
  Files (*wrong)();
  std::int32_t ngram = 0;
  bool mtp = false;
};

void PrintTo(const Source& source, std::ostream* out) { *out << source.name; }

class DraftSource : public ::testing::TestWithParam<Source> {
 protected:
  void TearDown() override {
    std::remove(files_.model.c_str());
    std::remove((files_.model + ".draft.gguf").c_str());
  }

  [[nodiscard]] DraftOptions drafts(std::int32_t most, bool adapts) const {
    const Source& source = GetParam();
    return {.most = most,
            .ngram = source.ngram,
            .model = files_.draft,
            .mtp = source.mtp ? MtpUse::on : MtpUse::off,
            .adapts = adapts};
  }

  Files files_;
};

Files llama_alone() { return {golden_model_file("llama-gqa4")}; }

Files llama_twice() {
  const std::string model = golden_model_file("llama-gqa4");
  return {model, model};
}

Files agreeing_mtp() {
  const std::string model = agreeing_mtp_model("mtp/glm4moe");
  std::remove(golden_model_file("mtp/glm4moe").c_str());
  return {model};
}

Files agreeing_eagle() {
  const std::string model = nearly_plain_eagle_model("llama");
  return {model, agreeing_eagle_draft("llama", model)};
}

Files agreeing_gemma4() {
  const std::string model = nearly_plain_gemma4();
  return {model, agreeing_assistant(model)};
}

/// The probabilities of the likeliest tokens after a filter of as many.
std::vector<double> probabilities(const TokenLogprobs& drawn, double temperature) {
  std::vector<double> each;
  double sum = 0.0;
  for (const TokenLogprob& top : drawn.top) {
    each.push_back(std::exp(static_cast<double>(top.logprob) / temperature));
    sum += each.back();
  }
  std::ranges::for_each(each, [sum](double& value) { value /= sum; });
  return each;
}

/// Chi-square of the ranks of 100,000 tokens, nearly all of them drawn at rows of drafts or before such. What is expected of
/// each rank is the sum of its probabilities; these differ from token to token, so that the statistic is smaller than that
/// of equal ones.
TEST_P(DraftSource, LeavesTheModelsDistribution) {
  constexpr std::int32_t kept = 4;
  constexpr float temperature = 2.0f;
  constexpr std::int32_t tokens = 100;
  constexpr std::uint64_t answers = 1000;
  files_ = GetParam().right();
  EngineOptions options = on_cpu({.max_batch_tokens = 256, .max_sequences = 32, .kv_tokens = 4096});
  options.drafts = drafts(2, false);
  const auto engine = load_model(files_.model, options);
  for (std::uint64_t seed = 0; seed < answers; ++seed) {
    Request request = numbered(0, engine->model().config().vocab);
    request.max_tokens = tokens;
    request.sampling = {.temperature = temperature, .top_k = kept, .top_p = 1.0f, .min_p = 0.0f, .seed = seed};
    request.logprobs = kept;
    engine->submit(request);
  }
  std::array<double, kept> seen{};
  std::array<double, kept> expected{};
  std::int64_t drawn = 0;
  while (engine->has_work()) {
    for (const StepOutput& output : engine->step()) {
      for (const TokenLogprobs& each : output.logprobs) {
        const std::vector<double> of_ranks = probabilities(each, temperature);
        const auto rank = std::ranges::find(each.top, each.token, &TokenLogprob::token) - each.top.begin();
        ASSERT_LT(rank, kept) << "a token that the filter leaves out";
        seen[static_cast<std::size_t>(rank)] += 1.0;
        for (std::size_t i = 0; i < of_ranks.size(); ++i) {
          expected[i] += of_ranks[i];
        }
        ++drawn;
      }
    }
  }
  EXPECT_EQ(drawn, static_cast<std::int64_t>(answers) * tokens);
  const EngineStatus status = engine->status();
  EXPECT_GT(status.accepted_tokens, 1000);
  EXPECT_GT(status.drafted_tokens - status.accepted_tokens, 1000);
  double chi_square = 0.0;
  for (std::size_t i = 0; i < kept; ++i) {
    chi_square += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
  }
  EXPECT_LT(chi_square, 16.3) << "0.1 % of samples of three degrees of freedom";
}

/// Where next to nothing is accepted, next to nothing is drafted, also in short answers: a drafted token costs a row of a
/// step, and at most as much for drafting it.
TEST_P(DraftSource, CostsNextToNothingWhereItDoesNotPay) {
  files_ = GetParam().wrong();
  EngineOptions options = on_cpu({.max_batch_tokens = 256, .max_sequences = 4, .kv_tokens = 1024});
  options.drafts = drafts(8, true);
  const auto engine = load_model(files_.model, options);
  constexpr std::uint64_t answers = 32;
  constexpr std::int32_t tokens = 90;
  for (std::uint64_t seed = 0; seed < answers; ++seed) {
    Request request = numbered(0, engine->model().config().vocab);
    request.max_tokens = tokens;
    request.sampling = {.temperature = 20.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .seed = seed};
    engine->submit(request);
  }
  while (engine->has_work()) {
    engine->step();
  }
  const EngineStatus status = engine->status();
  EXPECT_GT(status.drafted_tokens, 8);
  const double cost = 2.0 * StepCost::assumed_cost * static_cast<double>(status.drafted_tokens - status.accepted_tokens);
  EXPECT_LT(cost, 0.03 * static_cast<double>(answers) * tokens);
}

INSTANTIATE_TEST_SUITE_P(
    , DraftSource,
    ::testing::Values(Source{.name = "Ngram", .right = llama_alone, .wrong = llama_alone, .ngram = 1},
                      Source{.name = "DraftModel", .right = llama_twice, .wrong = llama_twice},
                      Source{.name = "Mtp",
                             .right = agreeing_mtp,
                             .wrong = [] { return Files{golden_model_file("mtp/glm4moe")}; },
                             .mtp = true},
                      Source{.name = "Eagle3",
                             .right = agreeing_eagle,
                             .wrong =
                                 [] {
                                   return Files{golden_model_file("eagle3/llama"), golden_eagle_draft("llama")};
                                 }},
                      Source{.name = "Assistant",
                             .right = agreeing_gemma4,
                             .wrong =
                                 [] {
                                   return Files{golden_model_file("gemma4"), golden_assistant("gemma4")};
                                 }}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace rocmforge::draft_sources_test
