#include "models/step/check_batch.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "device/devices.h"
#include "ops/embedding.h"

namespace rocmforge {
namespace {

/// Steps of a model without layers, of two sequences with three tokens and one.
class CheckBatch : public ::testing::Test {
 protected:
  CheckBatch() : memory_(Devices(cpu_), groups_, {.blocks = {8}, .block_tokens = 16}) {
    config_.vocab = 100;
    config_.hidden = 32;
    config_.context_length = 64;
    options_.max_batch_tokens = 8;
    options_.max_logit_rows = 2;
    options_.max_sequences = 2;
    options_.context_length = 48;
  }

  static BatchPlan batch(std::vector<std::int32_t> tokens = {1, 2, 3}, std::int32_t first_cell = 0) {
    BatchPlan plan;
    plan.clear();
    plan.add_sequence(tokens, first_cell, std::vector<std::int32_t>{0, 1, 2, 3}, true);
    plan.add_sequence(std::vector<std::int32_t>{4}, 0, std::vector<std::int32_t>{4}, true);
    plan.finish();
    return plan;
  }

  /// Why `plan` is refused, "" if it is not.
  std::string refusal(const BatchPlan& plan) {
    try {
      check_batch(plan, memory_, {config_, options_, groups_, 0, 0, drawn_rows_});
    } catch (const LogicError& error) {
      return error.what();
    }
    return "";
  }
  void expect_refused(const BatchPlan& plan, const std::string& words) {
    EXPECT_NE(refusal(plan).find(words), std::string::npos) << refusal(plan);
  }

  ModelConfig config_{};
  ModelOptions options_;
  KvGroups groups_{KvGroup{}};
  std::int32_t drawn_rows_ = 2;
  Device cpu_;
  SequenceMemory memory_;
};

TEST_F(CheckBatch, TakesWhatTheModelWasLoadedFor) {
  EXPECT_EQ(refusal(batch()), "");
  EXPECT_EQ(refusal(batch({99, EmbeddingRows::drawn_token(1)}, 46)), "") << "the last token, draw and position";
}

TEST_F(CheckBatch, CountsTokensSequencesAndRows) {
  expect_refused(batch(std::vector<std::int32_t>(8, 1)), "1 to max_batch_tokens tokens");
  options_.max_sequences = 1;
  expect_refused(batch(), "at most max_sequences sequences");
  options_.max_sequences = 2;
  options_.max_logit_rows = 1;
  expect_refused(batch(), "at most max_logit_rows");
}

TEST_F(CheckBatch, KnowsTokensAndDraws) {
  expect_refused(batch({100}), "outside the vocabulary");
  expect_refused(batch({EmbeddingRows::drawn_token(2)}), "of what the last step drew");
}

TEST_F(CheckBatch, KnowsTheContext) {
  expect_refused(batch({1, 2}, 47), "longer than the context");
  config_.learned_positions = true;
  config_.context_length = 40;
  expect_refused(batch({1}, 40), "outside the learned ones");
}

TEST_F(CheckBatch, KnowsTheMemory) {
  const KvGroups others{KvGroup{.planes = {KvLayout{.kv_heads = 1, .head_dim = 16}}}};
  const KvGroups own = std::exchange(groups_, others);
  expect_refused(batch(), "must have the layers of the model");
  groups_ = own;
  expect_refused(
      [] {
        BatchPlan plan = batch();
        plan.block_tables[0] = 8;
        return plan;
      }(),
      "block");
}

TEST_F(CheckBatch, RefusesWhatTheModelWasNotLoadedFor) {
  BatchPlan few = batch();
  few.most_rows = 4;
  expect_refused(few, "so many rows of a sequence");
  BatchPlan placed;
  placed.clear();
  placed.add_sequence(std::vector<std::int32_t>{1}, 0, std::vector<std::int32_t>{0}, true);
  placed.set_positions(std::vector<std::int32_t>{0, 1, 2}, 3);
  placed.finish();
  expect_refused(placed, "more positions than the model's rotation");
  BatchPlan span;
  span.clear();
  span.add_sequence(std::vector<std::int32_t>{1, 2, 3}, 0, std::vector<std::int32_t>{0}, true);
  span.add_span(0, 2);
  span.finish();
  expect_refused(span, "tokens that see each other");
}

TEST_F(CheckBatch, EncodersTakeWholeTexts) {
  config_.encoder.is_encoder = true;
  expect_refused(batch(), "no logits");
  BatchPlan later = batch({1, 2}, 3);
  later.logit_rows.clear();
  expect_refused(later, "a text in one step");
}

}  // namespace
}  // namespace rocmforge
