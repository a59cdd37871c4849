#include "ops/batch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rocmforge {
namespace {

using ::testing::ElementsAre;

BatchPlan two_sequences() {
  BatchPlan plan;
  plan.clear();
  const std::int32_t prompt[] = {10, 11, 12};
  const std::int32_t next[] = {99};
  const std::int32_t prompt_blocks[] = {4};
  const std::int32_t next_blocks[] = {2, 0, 1};
  plan.add_sequence(prompt, 0, prompt_blocks, true);
  plan.add_sequence(next, 40, next_blocks, true);
  plan.finish();
  return plan;
}

TEST(BatchPlan, lays_sequences_out_flat) {
  const BatchPlan plan = two_sequences();
  EXPECT_THAT(plan.tokens, ElementsAre(10, 11, 12, 99));
  EXPECT_THAT(plan.positions, ElementsAre(0, 1, 2, 40));
  EXPECT_THAT(plan.sequence_of, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(plan.query_offsets, ElementsAre(0, 3, 4));
  EXPECT_THAT(plan.kv_lengths, ElementsAre(3, 41));
  EXPECT_THAT(plan.block_tables, ElementsAre(4, -1, -1, 2, 0, 1));
  EXPECT_THAT(plan.logit_rows, ElementsAre(2, 3));
  EXPECT_NO_THROW(plan.validate(5, 16));
}

TEST(BatchPlan, logits_of_all_rows_or_of_none) {
  BatchPlan plan;
  plan.clear();
  const std::int32_t tokens[] = {1, 2, 3};
  const std::int32_t blocks[] = {0};
  plan.add_sequence(tokens, 0, blocks, false, true);
  plan.add_sequence(tokens, 0, blocks, false);
  plan.finish();
  EXPECT_THAT(plan.logit_rows, ElementsAre(0, 1, 2));
}

TEST(BatchPlan, is_reusable) {
  BatchPlan plan = two_sequences();
  plan.clear();
  EXPECT_EQ(plan.num_tokens(), 0);
  const std::int32_t tokens[] = {5};
  const std::int32_t blocks[] = {3};
  plan.add_sequence(tokens, 0, blocks, true);
  plan.finish();
  EXPECT_THAT(plan.block_tables, ElementsAre(3));
  EXPECT_NO_THROW(plan.validate(4, 16));
}

TEST(BatchPlan, validate_names_the_array_that_is_wrong) {
  const auto message = [](auto&& damage) -> std::string {
    BatchPlan plan = two_sequences();
    damage(plan);
    try {
      plan.validate(5, 16);
      return "";
    } catch (const LogicError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message([](BatchPlan& plan) { plan.block_tables[0] = 5; }), ::testing::HasSubstr("a block outside the cache"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.block_tables[4] = -1; }),
              ::testing::HasSubstr("a block outside the cache"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.positions[1] = 5; }), ::testing::HasSubstr("positions"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.kv_lengths[1] = 400; }), ::testing::HasSubstr("positions"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.query_offsets[1] = 0; }), ::testing::HasSubstr("query_offsets"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.sequence_of[3] = 0; }), ::testing::HasSubstr("sequence_of"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.logit_rows = {4}; }), ::testing::HasSubstr("logit_rows"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.block_tables.pop_back(); }), ::testing::HasSubstr("finish()"));
}

TEST(BatchPlan, draws_are_one_for_each_row_of_logits_and_stay_in_their_list) {
  BatchPlan plan = two_sequences();
  plan.finish();
  const std::size_t rows = plan.logit_rows.size();
  plan.sample_rows.resize(rows);
  EXPECT_NO_THROW(plan.validate(5, 16));
  plan.sample_rows[0].num_adjustments = 1;
  EXPECT_THROW(plan.validate(5, 16), LogicError);
  plan.adjustments.resize(1);
  EXPECT_NO_THROW(plan.validate(5, 16));
  plan.sample_rows[0].first_adjustment = 1;
  EXPECT_THROW(plan.validate(5, 16), LogicError);
  plan.sample_rows.assign(rows + 1, {});
  EXPECT_THROW(plan.validate(5, 16), LogicError);
  plan.clear();
  EXPECT_TRUE(plan.sample_rows.empty() && plan.adjustments.empty());
}

TEST(BatchPlan, padding_rows_have_no_positions_and_come_last) {
  BatchPlan plan = two_sequences();
  plan.add_padding(2);
  plan.finish();
  EXPECT_THAT(plan.query_offsets, ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(plan.kv_lengths, ElementsAre(3, 41, 0, 0));
  EXPECT_THAT(plan.sequence_of, ElementsAre(0, 0, 0, 1, 2, 3));
  EXPECT_THAT(plan.block_tables, ElementsAre(4, -1, -1, 2, 0, 1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(plan.logit_rows, ElementsAre(2, 3));
  EXPECT_NO_THROW(plan.validate(5, 16));
  const std::int32_t token[] = {1};
  EXPECT_THROW(plan.add_sequence(token, 0, token, true), LogicError);
  std::swap(plan.kv_lengths[0], plan.kv_lengths[3]);
  EXPECT_THROW(plan.validate(5, 16), LogicError);
}

}  // namespace
}  // namespace rocmforge
