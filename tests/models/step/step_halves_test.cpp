#include "models/step/step_halves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace rocmforge {
namespace {

using ::testing::ElementsAre;
using Numbers = std::vector<std::int32_t>;

/// A sequence in a step: cells before it, rows, blocks of groups 0 and 1.
struct Sequence {
  std::int32_t first_cell = 0;
  std::int32_t rows = 0;
  Numbers blocks{0};
  Numbers blocks_of_window{0};
};

Numbers counted(std::int32_t count, std::int32_t first) {
  Numbers numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

BatchPlan batch_of(const std::vector<Sequence>& sequences) {
  BatchPlan plan;
  plan.clear();
  std::int32_t token = 100;
  for (const Sequence& each : sequences) {
    plan.add_sequence(counted(each.rows, token), each.first_cell, each.blocks, true);
    plan.add_blocks(1, each.blocks_of_window);
    token += each.rows;
  }
  plan.finish();
  return plan;
}

BatchPlan rows_of(const Numbers& rows) {
  std::vector<Sequence> sequences;
  for (const std::int32_t count : rows) {
    sequences.push_back({.rows = count});
  }
  return batch_of(sequences);
}

TEST(StepHalves, AreCutNearTheMiddleAtWholeTiles) {
  EXPECT_EQ(cut_row(rows_of({2048})), 1024);
  EXPECT_EQ(cut_row(rows_of({2047})), 1024);
  EXPECT_EQ(cut_row(rows_of({1300})), 768);
  EXPECT_EQ(cut_row(rows_of({700, 700, 700})), 1024);
  EXPECT_EQ(cut_row(rows_of({40})), 16) << "halves of few rows";
  EXPECT_EQ(cut_row(rows_of({4})), 2);
}

/// A row alone would go to the kernel of decode steps.
TEST(StepHalves, LeaveEachSequenceSeveralRows) {
  EXPECT_EQ(cut_row(rows_of({1024, 1024})), 1024) << "between two sequences";
  EXPECT_EQ(cut_row(rows_of({1023, 1025})), 768) << "behind one row of the second";
  EXPECT_EQ(cut_row(rows_of({1025, 1023})), 768) << "before the last row of the first";
  EXPECT_EQ(cut_row(rows_of({769, 256, 1023})), 1280) << "where the cut before that is no better";
  EXPECT_EQ(cut_row(rows_of({769, 256, 256, 767})), 0) << "nor that behind it";
}

TEST(StepHalves, StepsOfOtherKindsAreComputedWhole) {
  const BatchPlan prompt = rows_of({2048});
  const auto changed = [&](auto&& change) {
    BatchPlan plan = prompt;
    change(plan);
    return cut_row(plan);
  };
  EXPECT_EQ(changed([](BatchPlan&) {}), 1024);
  EXPECT_EQ(changed([](BatchPlan& plan) { plan.states.emplace_back(); }), 0);
  EXPECT_EQ(changed([](BatchPlan& plan) { plan.adapters.emplace_back(); }), 0);
  EXPECT_EQ(changed([](BatchPlan& plan) { plan.visible_end.assign(2048, 1); }), 0);
  EXPECT_EQ(changed([](BatchPlan& plan) { plan.overwritten_rows.push_back(3); }), 0);
  EXPECT_EQ(changed([](BatchPlan& plan) { plan.most_rows = 2; }), 0);
  EXPECT_EQ(changed([](BatchPlan& plan) { plan.add_padding(1); }), 0);
  EXPECT_EQ(cut_row(rows_of(Numbers(2048, 1))), 0) << "a decode step";
  EXPECT_EQ(cut_row(rows_of({3})), 0);
}

TEST(StepHalves, HaveRoomForTheLargerHalf) {
  for (std::int32_t rows = 4; rows < 3000; ++rows) {
    const std::int32_t row = cut_row(rows_of({rows}));
    EXPECT_LE(std::max(row, rows - row), most_half_rows(rows)) << rows;
  }
  EXPECT_LE(1280, most_half_rows(2048));
}

TEST(StepHalves, RowsKeepTheirPlacesInSequencesAndCache) {
  const BatchPlan whole = batch_of({{.first_cell = 30, .rows = 1, .blocks = {4, 5}, .blocks_of_window = {-1, 5}},
                                    {.first_cell = 16, .rows = 5, .blocks = {7, 8}, .blocks_of_window = {3, 2}},
                                    {.first_cell = 0, .rows = 3, .blocks = {9}, .blocks_of_window = {1}}});
  BatchPlan part;
  take_rows(whole, 0, 3, part);
  EXPECT_THAT(part.tokens, ElementsAre(100, 101, 102));
  EXPECT_THAT(part.positions, ElementsAre(30, 16, 17));
  EXPECT_THAT(part.sequence_of, ElementsAre(0, 1, 1));
  EXPECT_THAT(part.query_offsets, ElementsAre(0, 1, 3));
  EXPECT_THAT(part.kv_lengths, ElementsAre(31, 18));
  EXPECT_EQ(part.num_groups(), 2);
  EXPECT_THAT(part.block_tables, ElementsAre(4, 5, 7, 8, 5, 5, 3, 2)) << "the table has a page of the window in place of one behind it";
  EXPECT_EQ(part.num_logit_rows(), 0);
  take_rows(whole, 3, 9, part);
  EXPECT_THAT(part.tokens, ElementsAre(103, 104, 105, 106, 107, 108));
  EXPECT_THAT(part.positions, ElementsAre(18, 19, 20, 0, 1, 2));
  EXPECT_THAT(part.sequence_of, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(part.query_offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(part.kv_lengths, ElementsAre(21, 3));
  EXPECT_THAT(part.block_tables, ElementsAre(7, 8, 9, -1, 3, 2, 1, -1));
}

TEST(StepHalves, PositionsOnSeveralAxesGoWithTheirRows) {
  BatchPlan whole;
  whole.clear();
  whole.add_sequence(counted(4, 0), 0, Numbers{0}, true);
  whole.set_positions(Numbers{0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 3);
  whole.finish();
  BatchPlan part;
  take_rows(whole, 2, 4, part);
  EXPECT_EQ(part.position_axes, 3);
  EXPECT_THAT(part.positions, ElementsAre(4, 5, 6, 7, 8, 9));
  EXPECT_THAT(part.kv_lengths, ElementsAre(4));
}

}  // namespace
}  // namespace rocmforge
