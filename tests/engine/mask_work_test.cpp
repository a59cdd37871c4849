// The limit of work that constrained sequences may cause in others' steps. Work is counted, never timed.
#include "engine/mask_work.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/fake_model.h"
#include "grammar/gbnf_parser.h"
#include "grammar/grammar_constraint.h"

namespace rocmforge {
namespace {

using ::testing::HasSubstr;

/// Units that were spent on the engine's thread, by step.
struct Meter {
  void add(std::uint64_t units) {
    const std::lock_guard lock(mutex);
    total += units;
    if (std::this_thread::get_id() == engine_thread) {
      by_step[step] += units;
    }
  }
  std::thread::id engine_thread = std::this_thread::get_id();
  std::mutex mutex;
  int step = 0;
  std::uint64_t total = 0;
  std::map<int, std::uint64_t> by_step;
};

/// Allows letters, after so many units of work for each mask.
class Laborious final : public TokenConstraint {
 public:
  Laborious(std::uint64_t cost, std::shared_ptr<Meter> meter) : cost_(cost), left_(cost), meter_(std::move(meter)) {}

  bool allowed_within(std::uint64_t units, std::span<std::uint32_t> mask) override {
    const std::uint64_t taken = std::min(units, left_);
    left_ -= taken;
    work_ += taken;
    meter_->add(taken);
    std::ranges::fill(mask, 0u);
    for (std::int32_t token = 3 + 'a'; token <= 3 + 'z'; ++token) {
      mask[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32);
    }
    return left_ == 0;
  }
  [[nodiscard]] std::uint64_t work() const override { return work_; }
  [[nodiscard]] bool finished() const override { return false; }
  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Laborious>(*this); }
  void go_to(const TokenConstraint& earlier) override { left_ = dynamic_cast<const Laborious&>(earlier).left_; }

 private:
  void advance(std::int32_t token) override {
    check(token >= 3 + 'a' && token <= 3 + 'z', "the token was allowed");
    left_ = cost_;
  }
  std::uint64_t cost_, left_, work_ = 0;
  std::shared_ptr<Meter> meter_;
};

struct Result {
  std::vector<std::int32_t> tokens;
  std::string text;
  FinishReason finish = FinishReason::none;
  int last_step = 0;
};

std::map<RequestId, Result> run(Engine& engine, Meter& meter) {
  std::map<RequestId, Result> results;
  for (meter.step = 0; engine.has_work() && meter.step < 100'000; ++meter.step) {
    for (const StepOutput& output : engine.step()) {
      Result& result = results[output.id];
      result.tokens.insert(result.tokens.end(), output.tokens.begin(), output.tokens.end());
      result.text += output.text;
      result.finish = output.finish;
      result.last_step = meter.step;
    }
  }
  EXPECT_FALSE(engine.has_work()) << "the work never ends";
  return results;
}

Request laborious(std::uint64_t cost, const std::shared_ptr<Meter>& meter) {
  Request request = make_request({5, 6, 7}, 12);
  request.constraint = std::make_shared<Laborious>(cost, meter);
  request.sampling.temperature = 0.0f;
  return request;
}

EngineOptions roomy() { return {.max_batch_tokens = 64, .max_sequences = 16, .kv_tokens = 2048}; }

TEST(MaskWork, AStepTakesItsUnitsAndCheapSequencesDoNotWait) {
  const auto meter = std::make_shared<Meter>();
  const FakeEngine fake = make_fake_engine(roomy());
  std::vector<RequestId> dear, cheap;
  for (int i = 0; i < 5; ++i) {
    dear.push_back(fake.engine->submit(laborious(7 * MaskWork::step_units, meter)));
  }
  for (int i = 0; i < 5; ++i) {
    cheap.push_back(fake.engine->submit(laborious(1000, meter)));
    cheap.push_back(fake.engine->submit(make_request({5, 6, 7}, 12)));
  }
  const std::map<RequestId, Result> results = run(*fake.engine, *meter);
  for (const auto& [step, units] : meter->by_step) {
    EXPECT_LE(units, MaskWork::step_units) << "in step " << step;
  }
  EXPECT_EQ(meter->total, 12u * 5 * (7 * MaskWork::step_units + 1000));
  for (const RequestId id : cheap) {
    EXPECT_LE(results.at(id).last_step, 12 + 2);
  }
  // The tokens are the same as for the request alone; their times may differ.
  const auto alone_meter = std::make_shared<Meter>();
  const FakeEngine alone = make_fake_engine(roomy());
  const RequestId id = alone.engine->submit(laborious(1, alone_meter));
  const std::vector<std::int32_t> expected = run(*alone.engine, *alone_meter).at(id).tokens;
  ASSERT_EQ(expected.size(), 12u);
  for (const RequestId one : dear) {
    EXPECT_EQ(results.at(one).tokens, expected);
    EXPECT_EQ(results.at(one).finish, FinishReason::length);
  }
}

/// Masks of drafts are part of the same units.
TEST(MaskWork, AStepTakesItsUnitsWithDrafts) {
  const auto answers = [](std::int32_t ngram, std::int64_t& accepted) {
    const auto meter = std::make_shared<Meter>();
    EngineOptions options = roomy();
    options.drafts = {.most = 6, .ngram = ngram, .adapts = false};
    const FakeEngine fake = make_fake_engine(options);
    fake.model->follow([](const std::vector<std::int32_t>& visible) { return byte_ids("abcd")[visible.size() % 4]; });
    for (const std::uint64_t cost : {std::uint64_t{100}, std::uint64_t{20'000}, 3 * MaskWork::step_units}) {
      Request request = laborious(cost, meter);
      request.max_tokens = 24;
      fake.engine->submit(std::move(request));
    }
    const std::map<RequestId, Result> results = run(*fake.engine, *meter);
    for (const auto& [step, units] : meter->by_step) {
      EXPECT_LE(units, MaskWork::step_units) << "in step " << step;
    }
    accepted = fake.engine->status().accepted_tokens;
    std::vector<std::string> texts;
    for (const auto& [id, result] : results) {
      texts.push_back(result.text);
    }
    return texts;
  };
  std::int64_t none = 0, accepted = 0;
  const std::vector<std::string> expected = answers(0, none);
  EXPECT_EQ(answers(2, accepted), expected);
  EXPECT_EQ(none, 0);
  EXPECT_GT(accepted, 20);
}

TEST(MaskWork, NothingButLateMasksIsWorkedOnStepByStep) {
  const auto meter = std::make_shared<Meter>();
  const FakeEngine fake = make_fake_engine(roomy());
  const RequestId id = fake.engine->submit(laborious(3 * MaskWork::step_units, meter));
  const std::map<RequestId, Result> results = run(*fake.engine, *meter);
  EXPECT_EQ(results.at(id).tokens.size(), 12u);
  EXPECT_EQ(fake.model->steps(), 12) << "a step without anything to compute is none of the model's";
  EXPECT_EQ(meter->by_step.size(), 36u);
}

TEST(MaskWork, ACancelledSequenceIsWorkedOnNoMore) {
  const auto meter = std::make_shared<Meter>();
  const FakeEngine fake = make_fake_engine(roomy());
  const RequestId late = fake.engine->submit(laborious(1'000'000 * MaskWork::step_units, meter));
  const RequestId free = fake.engine->submit(make_request({5, 6, 7}, 12));
  for (int step = 0; step < 3; ++step) {
    (void)fake.engine->step();
  }
  fake.engine->cancel(late);
  const std::uint64_t spent = meter->total;
  const std::map<RequestId, Result> results = run(*fake.engine, *meter);
  EXPECT_EQ(meter->total, spent);
  EXPECT_EQ(results.at(late).finish, FinishReason::cancelled);
  EXPECT_EQ(results.at(free).finish, FinishReason::length);
}

TEST(MaskWork, AnAmbiguousGrammarFailsAlone) {
  const auto trie = std::make_shared<const TokenTrie>(*byte_tokenizer());
  // Each of 300 positions may lead to any number of others, so a state contains most of the grammar.
  std::string ambiguous = "root ::= x{300}\nx ::= ";
  for (int i = 0; i < 300; ++i) {
    ambiguous += fmt::format("{}([a-z] y{} | [a-z])", i == 0 ? "" : " | ", i);
  }
  for (int i = 0; i < 300; ++i) {
    ambiguous += fmt::format("\ny{} ::= x x? | [a-z] y{}?", i, (i * 7 + 1) % 300);
  }
  const auto meter = std::make_shared<Meter>();
  const FakeEngine fake = make_fake_engine(roomy());
  Request bad = make_request({5, 6, 7}, 200);
  bad.constraint = make_grammar_constraint(GrammarMatcher::create(parse_gbnf(ambiguous), trie));
  Request good = make_request({5, 6, 7}, 60);
  good.constraint = make_grammar_constraint(GrammarMatcher::create(parse_gbnf("root ::= ([a-z]{1,8} [ ,.])*"), trie));
  const RequestId bad_id = fake.engine->submit(std::move(bad));
  const RequestId good_id = fake.engine->submit(std::move(good));
  const RequestId free_id = fake.engine->submit(make_request({5, 6, 7}, 60));
  const std::map<RequestId, Result> results = run(*fake.engine, *meter);
  EXPECT_EQ(results.at(bad_id).finish, FinishReason::error);
  EXPECT_THAT(results.at(bad_id).text, HasSubstr("grammar: too ambiguous"));
  EXPECT_EQ(results.at(good_id).finish, FinishReason::length);
  EXPECT_EQ(results.at(free_id).finish, FinishReason::length);
  EXPECT_LE(results.at(free_id).last_step, 62);
}

}  // namespace
}  // namespace rocmforge
