// A model that several ranks share gives what one rank gives.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/launch_trace.h"
#include "kernels/register_all.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "models/step/thread_communicator.h"

namespace rocmforge::testing {
namespace {

using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

ModelOptions shared_by(std::int32_t ranks) {
  ModelOptions options = f32_options();
  options.ranks = ranks;
  return options;
}

/// The widest instruction set: what a sum over ranks adds is the same for all.
const std::string& fastest_set() { return kernel_sets().back(); }

class RanksTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (is_gpu(fastest_set())) {
      GTEST_SKIP() << "for ranks on the CPU; device_models_test.cpp has GPUs";
    }
  }
  [[nodiscard]] std::unique_ptr<Runner> on(std::int32_t ranks) const {
    return std::make_unique<Runner>(file_, fastest_set(), shared_by(ranks), 2);
  }
  /// The logits of a prompt of 20 tokens and of what is drawn behind it, with the draws.
  [[nodiscard]] Tokens greedy(Runner& runner) const {
    Tokens tokens(golden_.tokens.begin(), golden_.tokens.begin() + 20);
    tokens.push_back(runner.draw({{tokens, 0, {5, 11, 2}}})[0]);
    while (tokens.size() < 44) {
      tokens.push_back(runner.draw({{{tokens.back()}, static_cast<std::int32_t>(tokens.size()) - 1, {5, 11, 2}}})[0]);
    }
    return tokens;
  }

  Golden golden_ = read_golden(GetParam());
  GgufFile file_{golden_path(GetParam())};
};

TEST_P(RanksTest, TwoGiveTheLogitsOfTheReferenceImplementationInStepsOfAnySize) {
  const auto runner = on(2);
  const std::vector<float> whole = runner->whole(golden_.tokens);
  EXPECT_LE(relative_error(whole, golden_.logits), logit_tolerance(fastest_set()));
  const auto length = static_cast<std::int32_t>(golden_.tokens.size());
  std::vector<float> logits;
  for (std::int32_t first = 0, count = 19; first < length; first += count, count = first < 38 ? 19 : 1) {
    count = std::min(count, length - first);
    const Tokens tokens(golden_.tokens.begin() + first, golden_.tokens.begin() + first + count);
    const std::vector<float> rows = runner->step({{tokens, first, {17, 3, 9}}});
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  expect_same_logits(logits, whole, fastest_set());
  const std::int32_t last = length - 1;
  expect_same_logits(runner->rows(golden_.tokens, {last}), {whole.end() - golden_.vocab, whole.end()}, fastest_set());
}

/// Operations of the first rank so far.
std::uint64_t operations() { return launch_trace().count(); }

/// What a half has not got from the others yet is summed as late as can be, see Communicator::finish_sum. Steps of models
/// with recurrent states are not cut.
TEST_P(RanksTest, StepsInHalvesGiveTheSameBits) {
  ModelOptions options = shared_by(2);
  options.halves_from = 20;
  Runner halves(file_, fastest_set(), options, 2);
  const auto whole = on(2);
  const auto operations_of = [](const auto& step) {
    const std::uint64_t before = operations();
    step();
    return operations() - before;
  };
  std::vector<float> expected;
  std::vector<float> logits;
  const std::uint64_t of_whole = operations_of([&] { expected = whole->whole(golden_.tokens); });
  const std::uint64_t of_halves = operations_of([&] { logits = halves.whole(golden_.tokens); });
  EXPECT_EQ(logits, expected);
  EXPECT_EQ(of_halves > of_whole, halves.model().state_bytes() == 0) << of_halves << " operations, not " << of_whole;
  const auto last = static_cast<std::int32_t>(golden_.tokens.size()) - 1;
  EXPECT_EQ(halves.rows(golden_.tokens, {last}), whole->rows(golden_.tokens, {last}));
  // Behind a first part that is computed whole, beside a sequence of one row.
  const Tokens first(golden_.tokens.begin(), golden_.tokens.begin() + 9);
  const Tokens rest(golden_.tokens.begin() + 9, golden_.tokens.end());
  for (Runner* runner : {&halves, whole.get()}) {
    runner->step({{first, 0, {17, 3, 9}}});
  }
  const std::vector<Piece> both{{{golden_.tokens[0]}, 0, {4}}, {rest, 9, {17, 3, 9}}, {rest, 0, {5, 11, 2}}};
  EXPECT_EQ(halves.step(both), whole->step(both));
}

TEST_P(RanksTest, TwoDrawTheSameGreedyTokens) { EXPECT_EQ(greedy(*on(2)), greedy(*on(1))); }

/// Four ranks have one KV head in common with another, where there are two. Only the key heads of delta nets are too few.
TEST_P(RanksTest, FourGiveTheLogitsOrRefuseTheModelInOneLine) {
  const std::string refusal =
      error_text([&] { EXPECT_LE(relative_error(on(4)->whole(golden_.tokens), golden_.logits), 1e-4); });
  const bool has_delta_net = GetParam().starts_with("qwen35") || GetParam().starts_with("qwen3next");
  EXPECT_THAT(refusal, has_delta_net ? HasSubstr("layer 0: 2 key heads can't be shared by 4 ranks") : HasSubstr("no error"));
}

INSTANTIATE_TEST_SUITE_P(Golden, RanksTest, ::testing::ValuesIn(golden_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Ranks, BlocksOfTokenPredictionGiveTheSameLogits) {
  for (const char* name : {"mtp/deepseek-v3", "mtp/glm4moe", "mtp/qwen35moe"}) {
    const GgufFile file(golden_path(name));
    Tokens tokens;
    for (std::int32_t i = 0; i < 21; ++i) {
      tokens.push_back((i * i + 3) % 112);
    }
    const Runner::Predicted part{{{tokens.begin(), tokens.end() - 1}, 0, {5, 11}}, {tokens.begin() + 1, tokens.end()}};
    ModelOptions options = shared_by(1);
    options.load_mtp = true;
    const std::vector<float> expected = Runner(file, "reference", options).predict({part});
    options.ranks = 2;
    EXPECT_LE(relative_error(Runner(file, "reference", options).predict({part}), expected), 1e-4) << name;
  }
}

/// The columns of a rank begin at a block of the format.
TEST(Ranks, QuantisedWeightsAreCutByBlocks) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      model.convert("blk." + std::to_string(layer) + "." + part + ".weight", DType::q8_0);
    }
  }
  const OpenModel open(model);
  const Tokens tokens = read_golden("llama-gqa4").tokens;
  for (const std::string& set : kernel_sets()) {
    if (is_gpu(set)) {
      GTEST_SKIP() << "for ranks on the CPU; device_models_test.cpp has GPUs";
    }
    const std::vector<float> one = Runner(open.file, set, shared_by(1)).whole(tokens);
    EXPECT_LE(relative_error(Runner(open.file, set, shared_by(2)).whole(tokens), one), 1e-2) << set;
  }
}

TEST(Ranks, EachHasHalfOfAllThatIsCut) {
  const GgufFile file(golden_path("llama-gqa4"));
  KernelRegistry registry;
  register_reference_kernels(registry);
  const DeviceInfo device = cpu_device_info(CpuIsa::generic);
  const auto one = Model::plan(file, registry, device, 1, shared_by(1));
  const auto two = Model::plan(file, registry, device, 1, shared_by(2));
  const std::size_t embedding = one->parts().embedding.weights;
  EXPECT_TRUE(one->rank_bytes().empty());
  ASSERT_EQ(two->rank_bytes().size(), 2u);
  for (const RankBytes& rank : two->rank_bytes()) {
    EXPECT_LE(static_cast<double>(rank.weights - embedding),
              0.55 * static_cast<double>(one->device_weight_bytes() - embedding));
  }
  EXPECT_EQ(block_bytes_of(two->kv_groups()[0]), block_bytes_of(one->kv_groups()[0]) / 2);
}

std::string refusal(const char* model, std::int32_t ranks) {
  const GgufFile file(golden_path(model));
  return error_text([&] { Runner(file, "reference", shared_by(ranks)); });
}

TEST(Ranks, WhatCannotBeSharedIsOneLine) {
  EXPECT_THAT(refusal("llama-gqa4", 3), HasSubstr("llama-gqa4.gguf: layer 0: 8 query heads can't be shared by 3 ranks"));
  EXPECT_THAT(refusal("llama-gqa4", 17), HasSubstr("17 ranks are more than 16"));
  EXPECT_THAT(refusal("mamba2", 3), HasSubstr("layer 0: 4 heads can't be shared by 3 ranks"));
  EXPECT_THAT(refusal("lfm2-conv", 3), HasSubstr("layer 0: 32 channels can't be shared by 3 ranks"));
  ModelFile quantised = ModelFile::golden("llama-gqa4");
  quantised.convert("blk.0.ffn_down.weight", DType::q8_0);
  const OpenModel open(quantised);
  EXPECT_THAT(error_text([&] { Runner(open.file, "reference", shared_by(4)); }),
              HasSubstr("tensor 'blk.0.ffn_down.weight': 64 columns in blocks of 32 can't be shared by 4 ranks"));
  quantised.convert("blk.0.attn_output.weight", DType::q8_0);
  const OpenModel narrow(quantised);
  EXPECT_THAT(error_text([&] { Runner(narrow.file, "reference", shared_by(4)); }),
              HasSubstr("whose blocks of 32 columns can't be parted behind column 16"));
}

/// Rank 1 has no memory here: rank 0, which waits for its part, gets the same error, and the next step is computed.
TEST(Ranks, OneThatThrowsEndsTheStepForAll) {
  const Golden golden = read_golden("llama-gqa4");
  const GgufFile file(golden_path("llama-gqa4"));
  Runner runner(file, "reference", shared_by(2));
  const std::vector<float> whole = runner.whole(golden.tokens);
  SequenceMemory of_one(runner.device(), runner.memory().groups(),
                        {.blocks = runner.memory().num_blocks(), .block_tokens = Runner::block_tokens});
  BatchPlan plan;
  plan.clear();
  plan.add_sequence(golden.tokens, 0, std::vector<std::int32_t>{0, 1, 2}, true, true);
  plan.finish();
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THROW(runner.model().forward(plan, of_one), std::out_of_range);
    expect_same_logits(runner.whole(golden.tokens), whole, "reference");
  }
}

TEST(ThreadRanks, AFailureReachesTheOthersWhereverTheyAre) {
  ThreadRanks ranks(3);
  ThreadPool threads(3);
  for (int failing = 0; failing < 3; ++failing) {
    for (const int last : {0, 1, 500}) {
      ranks.begin_step();
      const std::string error = error_text([&] {
        threads.run([&](int rank) {
          try {
            for (int sum = 0; sum < 1000; ++sum) {
              if (rank == failing && sum == last) {
                throw Error("this rank can't go on");
              }
              ranks.enter(rank, &sum);
              ranks.leave();
            }
          } catch (...) {
            ranks.fail(std::current_exception());
            throw;
          }
        });
      });
      EXPECT_EQ(error, "this rank can't go on");
    }
  }
}

TEST(ThreadRanks, RowsAreGatheredInTheirOrderAndNumbersBroadcast) {
  ThreadRanks ranks(3);
  ThreadPool threads(3);
  const std::vector<std::int64_t> widths{2, 1, 3};
  std::vector<float> gathered(2 * 6);
  std::vector<float> everywhere[3];
  std::vector<std::int32_t> sent{7, 8, 9};
  threads.run([&](int rank) {
    ThreadCommunicator communicator(ranks, rank);
    const auto width = static_cast<std::size_t>(widths[static_cast<std::size_t>(rank)]);
    std::vector<float> part(2 * width);
    for (std::size_t i = 0; i < part.size(); ++i) {
      part[i] = static_cast<float>(100 * rank) + static_cast<float>(i);
    }
    using Receivers = Communicator::Receivers;
    communicator.gather(part.data(), 2, widths, Receivers::first, rank == 0 ? gathered.data() : nullptr);
    std::vector<float>& own = everywhere[static_cast<std::size_t>(rank)];
    own.resize(gathered.size());
    communicator.gather(part.data(), 2, widths, Receivers::all, own.data());
    communicator.broadcast(&sent[static_cast<std::size_t>(rank)], sizeof(std::int32_t));
  });
  EXPECT_EQ(gathered, (std::vector<float>{0, 1, 100, 200, 201, 202, 2, 3, 101, 203, 204, 205}));
  EXPECT_THAT(everywhere, ::testing::Each(gathered));
  EXPECT_EQ(sent, (std::vector<std::int32_t>{7, 7, 7}));
}

}  // namespace
}  // namespace rocmforge::testing
