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
  EXPECT_NO_THROW(plan.validate({5}, 16));
}

TEST(BatchPlan, every_group_has_a_table) {
  BatchPlan plan;
  for (int round = 0; round < 2; ++round) {
    plan.clear();
    const std::int32_t tokens[] = {10, 11, 12};
    const std::int32_t blocks[] = {4, 2};
    const std::int32_t long_blocks[] = {3, 0, 1};
    const std::int32_t behind_window[] = {-1, -1, 7};
    plan.add_sequence(tokens, 14, blocks, true);
    plan.add_blocks(1, blocks);
    plan.add_sequence(tokens, 40, long_blocks, true);
    plan.add_blocks(1, behind_window);
    plan.add_padding(1);
    plan.finish();
    EXPECT_EQ(plan.num_groups(), 2);
    EXPECT_THAT(plan.block_tables, ElementsAre(4, 2, -1, 3, 0, 1, -1, -1, -1, 4, 2, -1, 7, 7, 7, -1, -1, -1))
        << "where blocks were given up stands one that is held";
    EXPECT_NO_THROW(plan.validate({5, 8}, 16));
    EXPECT_THROW(plan.validate({5, 7}, 16), LogicError);
    EXPECT_THROW(plan.validate({5}, 16), LogicError);
    EXPECT_THROW(plan.validate({5, 8, 8}, 16), LogicError);
  }
  plan.clear();
  EXPECT_EQ(plan.num_groups(), 1) << "the next step may have fewer";
  const std::int32_t one[] = {1};
  plan.add_sequence(one, 0, one, true);
  plan.add_sequence(one, 0, one, true);
  EXPECT_THROW(plan.add_blocks(1, one), LogicError) << "the first sequence has none";
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
  EXPECT_NO_THROW(plan.validate({4}, 16));
}

TEST(BatchPlan, validate_names_the_array_that_is_wrong) {
  const auto message = [](auto&& damage) -> std::string {
    BatchPlan plan = two_sequences();
    damage(plan);
    try {
      plan.validate({5}, 16);
      return "";
    } catch (const LogicError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message([](BatchPlan& plan) { plan.block_tables[0] = 5; }), ::testing::HasSubstr("a block outside the cache"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.block_tables[4] = -1; }),
              ::testing::HasSubstr("a block outside the cache"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.positions[1] = -1; }), ::testing::HasSubstr("positions"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.positions.pop_back(); }), ::testing::HasSubstr("positions"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.position_axes = 5; }), ::testing::HasSubstr("position_axes"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.kv_lengths[1] = 400; }), ::testing::HasSubstr("block_tables"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.query_offsets[1] = 0; }), ::testing::HasSubstr("query_offsets"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.sequence_of[3] = 0; }), ::testing::HasSubstr("sequence_of"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.logit_rows = {4}; }), ::testing::HasSubstr("logit_rows"));
  EXPECT_THAT(message([](BatchPlan& plan) { plan.block_tables.pop_back(); }), ::testing::HasSubstr("finish()"));
}

TEST(BatchPlan, positions_may_be_others_than_the_cells) {
  BatchPlan plan;
  plan.clear();
  const std::int32_t tokens[] = {1, 2};
  const std::int32_t blocks[] = {0};
  plan.add_sequence(tokens, 4, blocks, true);
  const std::int32_t one_axis[] = {3, 3};
  plan.set_positions(one_axis, 1);
  EXPECT_THAT(plan.positions, ElementsAre(3, 3));
  const std::int32_t three_axes[] = {7, 8, 9, 7, 8, 10};
  plan.add_sequence(tokens, 6, blocks, true);
  plan.set_positions(three_axes, 3);
  plan.add_sequence(tokens, 0, blocks, true);
  plan.add_padding(1);
  plan.finish();
  EXPECT_EQ(plan.position_axes, 3);
  EXPECT_THAT(plan.positions, ElementsAre(3, 3, 3, 3, 3, 3, 7, 8, 9, 7, 8, 10, 0, 0, 0, 1, 1, 1, 0, 0, 0));
  EXPECT_THAT(plan.kv_lengths, ElementsAre(6, 8, 2, 0)) << "cells count on";
  EXPECT_NO_THROW(plan.validate({1}, 16));
  EXPECT_EQ(plan.view().position_axes, 3);
  EXPECT_EQ(plan.view().cell(1, 3), 7);
  plan.clear();
  EXPECT_EQ(plan.position_axes, 1);
  plan.add_sequence(tokens, 0, blocks, true);
  EXPECT_THROW(plan.set_positions(three_axes, 1), LogicError);
  EXPECT_THROW(plan.set_positions(three_axes, 5), LogicError);
}

TEST(BatchPlan, tokens_of_a_span_see_each_other) {
  BatchPlan plan;
  plan.clear();
  const std::int32_t tokens[] = {1, 2, 3, 4, 5};
  const std::int32_t blocks[] = {0};
  plan.add_sequence(tokens, 0, blocks, true);
  plan.add_sequence(tokens, 4, blocks, true);
  plan.add_span(1, 2);
  plan.add_span(3, 2);
  EXPECT_THROW(plan.add_span(3, 1), LogicError) << "it overlaps";
  EXPECT_THROW(plan.add_span(4, 2), LogicError) << "it ends outside";
  plan.add_padding(1);
  plan.finish();
  EXPECT_THAT(plan.visible_end, ElementsAre(1, 2, 3, 4, 5, 5, 7, 7, 9, 9, 0));
  EXPECT_NO_THROW(plan.validate({1}, 16));
  EXPECT_EQ(plan.view().visible_end, plan.visible_end.data());
  plan.visible_end[7] = 6;
  EXPECT_THROW(plan.validate({1}, 16), LogicError);
  plan.clear();
  plan.add_sequence(tokens, 0, blocks, true);
  plan.finish();
  EXPECT_EQ(plan.view().visible_end, nullptr);
}

TEST(BatchPlan, a_step_of_few_rows_has_no_more) {
  BatchPlan plan = two_sequences();
  plan.most_rows = 4;
  EXPECT_NO_THROW(plan.validate({5}, 16));
  plan.most_rows = 2;
  EXPECT_THROW(plan.validate({5}, 16), LogicError);
  plan.most_rows = 3;
  EXPECT_THROW(plan.validate({5}, 16), LogicError);
  plan.clear();
  EXPECT_EQ(plan.most_rows, 0);
}

TEST(BatchPlan, draws_are_one_for_each_row_of_logits_and_stay_in_their_list) {
  BatchPlan plan = two_sequences();
  plan.finish();
  const std::size_t rows = plan.logit_rows.size();
  plan.sample_rows.resize(rows);
  EXPECT_NO_THROW(plan.validate({5}, 16));
  plan.sample_rows[0].num_adjustments = 1;
  EXPECT_THROW(plan.validate({5}, 16), LogicError);
  plan.adjustments.resize(1);
  EXPECT_NO_THROW(plan.validate({5}, 16));
  plan.sample_rows[0].first_adjustment = 1;
  EXPECT_THROW(plan.validate({5}, 16), LogicError);
  plan.sample_rows.assign(rows + 1, {});
  EXPECT_THROW(plan.validate({5}, 16), LogicError);
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
  EXPECT_NO_THROW(plan.validate({5}, 16));
  const std::int32_t token[] = {1};
  EXPECT_THROW(plan.add_sequence(token, 0, token, true), LogicError);
  std::swap(plan.kv_lengths[0], plan.kv_lengths[3]);
  EXPECT_THROW(plan.validate({5}, 16), LogicError);
}

TEST(BatchPlan, every_sequence_has_slots_of_its_own_where_the_model_has_state) {
  BatchPlan plan = two_sequences();
  EXPECT_NO_THROW(plan.validate({5}, 16));
  EXPECT_EQ(plan.view().states, nullptr);
  EXPECT_THROW(plan.validate({5}, 16, 6), LogicError);
  const std::vector<StateSlots> good{{.write = 0, .keep = 1, .keep_rows = 2}, {.read = 3, .write = 5}};
  plan.states = good;
  plan.add_padding(1);
  plan.finish();
  ASSERT_EQ(plan.states.size(), 3u);
  EXPECT_EQ(plan.states.back(), StateSlots{});
  EXPECT_NO_THROW(plan.validate({5}, 16, 6));
  EXPECT_EQ(plan.view().states, plan.states.data());
  EXPECT_THROW(plan.validate({5}, 16), LogicError) << "the model has none";
  EXPECT_THROW(plan.validate({5}, 16, 5), LogicError) << "slot 5 of 5";
  const auto expect_wrong = [&](std::size_t s, StateSlots slots, const char* why) {
    BatchPlan wrong = plan;
    wrong.states[s] = slots;
    EXPECT_THROW(wrong.validate({5}, 16, 6), LogicError) << why;
  };
  expect_wrong(0, {.read = 2, .write = 0}, "a sequence that starts reads a state");
  expect_wrong(1, {.read = -1, .write = 5}, "one that goes on reads none");
  expect_wrong(1, {.read = 3, .write = 3}, "a slot is read and written");
  expect_wrong(1, {.read = 0, .write = 5}, "another sequence writes what it reads");
  expect_wrong(1, {.read = 3, .write = 1}, "two write the same");
  expect_wrong(1, {.read = 3, .write = -1}, "nowhere to write");
  expect_wrong(1, {.read = 3, .write = 5, .keep = 4, .keep_rows = 2}, "it has one row");
  expect_wrong(1, {.read = 6, .write = 5}, "outside the memory");
  expect_wrong(2, {.write = 4}, "padding writes nothing");
}

}  // namespace
}  // namespace rocmforge
