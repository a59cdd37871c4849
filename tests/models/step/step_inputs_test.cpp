#include "models/step/step_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device/fake_driver.h"
#include "models/step/step_graphs.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using ::testing::ElementsAre;

/// Arrays in the memory of a GPU that is made of host memory.
class StepInputsTest : public ::testing::Test {
 protected:
  StepInputsTest() {
    folder_.write("gfx1100/any.hsaco",
                  "\x7f"
                  "ELF code");
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
    inputs_.emplace(*device_, StepInputs::Limits{.tokens = 16, .sequences = 8, .blocks = 8, .logit_rows = 8});
    start_ = device_->driver().counters();
  }

  template <class T>
  static std::vector<T> read(const T* data, std::int32_t count) {
    return {data, data + count};
  }
  /// Sequences of one token each, at different depths.
  static BatchPlan decode_plan(std::int32_t sequences) {
    BatchPlan plan;
    plan.clear();
    for (std::int32_t s = 0; s < sequences; ++s) {
      const std::vector<std::int32_t> token{10 + s};
      const std::vector<std::int32_t> blocks{s, s + 8};
      plan.add_sequence(token, 16 + s, blocks, true);
      plan.sample_rows.push_back({.uniform = 0.25 * s, .temperature = 1.0f, .first_adjustment = s, .num_adjustments = 1});
      plan.adjustments.push_back({.id = s, .bias = 1.0f});
    }
    plan.finish();
    return plan;
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
  std::optional<StepInputs> inputs_;
  DriverCounters start_;
};

TEST_F(StepInputsTest, OneCopyBringsEveryArray) {
  BatchPlan plan;
  plan.clear();
  const std::vector<std::int32_t> prompt{5, 6, 7};
  const std::vector<std::int32_t> token{9};
  const std::vector<std::int32_t> blocks{3, 1};
  plan.add_sequence(prompt, 0, blocks, false);
  plan.add_sequence(token, 20, blocks, true);
  plan.sample_rows = {{.uniform = 0.5}};
  plan.finish();
  const DriverCounters before = device_->driver().counters();
  bool moved = true;
  const StepArrays arrays = inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  const DriverCounters step = device_->driver().counters() - before;
  EXPECT_FALSE(moved);
  EXPECT_EQ(step.copies_to_device, 1);
  EXPECT_EQ(step.allocations + step.synchronizations, 0);
  // One row of 88 bytes, then tokens, positions, sequence_of, offsets, lengths, 2 x 2 blocks, rows: in units of 16 bytes.
  static_assert(sizeof(SampleTokens::Row) == 88);
  EXPECT_EQ(step.bytes_to_device, 16 * 13);

  EXPECT_THAT(read(arrays.tokens, 4), ElementsAre(5, 6, 7, 9));
  EXPECT_THAT(read(arrays.batch.positions, 4), ElementsAre(0, 1, 2, 20));
  EXPECT_THAT(read(arrays.batch.sequence_of, 4), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(read(arrays.batch.query_offsets, 3), ElementsAre(0, 3, 4));
  EXPECT_THAT(read(arrays.batch.kv_lengths, 2), ElementsAre(3, 21));
  EXPECT_THAT(read(arrays.batch.block_tables, 4), ElementsAre(3, 1, 3, 1));
  EXPECT_THAT(read(arrays.logit_rows, 1), ElementsAre(3));
  EXPECT_EQ(arrays.sample_rows[0].uniform, 0.5);
  EXPECT_EQ(arrays.draw, Draw::greedy);
  EXPECT_TRUE(arrays.any_single);
  EXPECT_EQ(arrays.batch.max_q_len, 3);
  EXPECT_EQ(arrays.batch.max_kv_len, 21);
}

/// Kernels of a step read keys of earlier steps, and the step's arrays, before the kernel in front of them has ended
/// (tile/launch_order.h): the copy is what they rely on.
TEST_F(StepInputsTest, ACopyLiesBetweenStepsEvenWhereNothingHasChanged) {
  const BatchPlan plan = decode_plan(3);
  for (int step = 0; step < 2; ++step) {
    log_->calls.clear();
    bool moved = false;
    inputs_->upload(plan, StepInputs::shape_of(plan), moved);
    EXPECT_EQ(std::ranges::count(log_->calls, "copy_to_device"), 1) << "step " << step;
  }
}

/// Rows that are added to a step of few rows are sequences of their own.
TEST_F(StepInputsTest, StepsOfFewRowsArePaddedToAPowerOfTwoOfTokens) {
  BatchPlan plan;
  plan.clear();
  plan.most_rows = 4;
  const std::vector<std::int32_t> three{10, 11, 12};
  const std::vector<std::int32_t> two{20, 21};
  const std::vector<std::int32_t> blocks{1, 2};
  plan.add_sequence(three, 16, blocks, true, true);
  plan.add_sequence(two, 20, blocks, true, true);
  plan.finish();
  StepGraphs::Limits limits{.sequences = 8, .kv_len = 48, .block_tokens = 16, .rows = 8};
  EXPECT_TRUE(StepGraphs::serves(plan, limits));
  limits.sequences = 4;
  EXPECT_FALSE(StepGraphs::serves(plan, limits)) << "five sequences with the padding";
  limits.sequences = 8;
  limits.rows = 7;
  EXPECT_FALSE(StepGraphs::serves(plan, limits));
  limits.rows = 8;
  const StepInputs::Shape shape = StepGraphs::padded(StepInputs::shape_of(plan), limits);
  EXPECT_EQ(shape.tokens, 8);
  EXPECT_EQ(shape.sequences, 5);
  EXPECT_EQ(shape.logit_rows, 8);
  EXPECT_EQ(shape.max_q_len, 4);
  bool moved = false;
  const StepArrays arrays = inputs_->upload(plan, shape, moved);
  EXPECT_EQ(arrays.most_rows, 4);
  EXPECT_THAT(read(arrays.batch.query_offsets, 6), ElementsAre(0, 3, 5, 6, 7, 8));
  EXPECT_THAT(read(arrays.batch.sequence_of, 8), ElementsAre(0, 0, 0, 1, 1, 2, 3, 4));
  EXPECT_THAT(read(arrays.batch.kv_lengths, 5), ElementsAre(19, 22, 0, 0, 0));
  plan.most_rows = 0;
  EXPECT_FALSE(StepGraphs::serves(plan, limits)) << "it is a step of prompts";
}

/// Each token has its positions, and the end of what it sees.
TEST_F(StepInputsTest, PositionsAndEndsAreUploaded) {
  BatchPlan plan;
  plan.clear();
  const std::vector<std::int32_t> tokens{10, 11, 12};
  const std::vector<std::int32_t> blocks{1, 2};
  const std::vector<std::int32_t> places{5, 5, 5, 5, 5, 6, 5, 6, 5};
  plan.add_sequence(tokens, 16, blocks, true);
  plan.set_positions(places, 3);
  plan.add_span(0, 2);
  plan.finish();
  bool moved = false;
  const StepArrays arrays = inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  EXPECT_EQ(arrays.batch.position_axes, 3);
  EXPECT_THAT(read(arrays.batch.positions, 9), ::testing::ElementsAreArray(places));
  EXPECT_THAT(read(arrays.batch.visible_end, 3), ElementsAre(18, 18, 19));
  plan.clear();
  plan.add_sequence(tokens, 16, blocks, true);
  plan.finish();
  EXPECT_EQ(inputs_->upload(plan, StepInputs::shape_of(plan), moved).batch.visible_end, nullptr);
}

TEST_F(StepInputsTest, TheTablesOfAllGroupsFollowEachOther) {
  BatchPlan plan;
  plan.clear();
  for (std::int32_t s = 0; s < 3; ++s) {
    const std::vector<std::int32_t> token{10 + s};
    const std::vector<std::int32_t> blocks{s, s + 4};
    const std::vector<std::int32_t> of_window{-1, s + 8};
    plan.add_sequence(token, 16 + s, blocks, true);
    plan.add_blocks(1, of_window);
  }
  plan.finish();
  const StepGraphs::Limits limits{.sequences = 8, .kv_len = 48, .block_tokens = 16};
  const StepInputs::Shape shape = StepGraphs::padded(StepInputs::shape_of(plan), limits);
  bool moved = false;
  const StepArrays arrays = inputs_->upload(plan, shape, moved);
  ASSERT_EQ(arrays.batch.num_sequences, 4);
  ASSERT_EQ(arrays.batch.max_blocks, 3);
  EXPECT_THAT(read(arrays.batch.block_tables, 24), ElementsAre(0, 4, -1, 1, 5, -1, 2, 6, -1, -1, -1, -1,  //
                                                               8, 8, -1, 9, 9, -1, 10, 10, -1, -1, -1, -1));
  EXPECT_LT(StepInputs::device_bytes({.tokens = 8, .sequences = 8, .blocks = 64, .logit_rows = 8}),
            StepInputs::device_bytes({.tokens = 8, .sequences = 8, .blocks = 64, .groups = 2, .logit_rows = 8}));
}

TEST_F(StepInputsTest, PaddingSequencesHaveOneRowAndNoKeys) {
  const BatchPlan plan = decode_plan(3);
  const StepGraphs::Limits limits{.sequences = 8, .kv_len = 128, .block_tokens = 16};
  const StepInputs::Shape shape = StepGraphs::padded(StepInputs::shape_of(plan), limits);
  bool moved = false;
  const StepArrays arrays = inputs_->upload(plan, shape, moved);
  EXPECT_EQ(arrays.batch.num_sequences, 4);
  EXPECT_EQ(arrays.batch.max_blocks, 8);
  EXPECT_EQ(arrays.batch.max_kv_len, 128);
  EXPECT_THAT(read(arrays.tokens, 4), ElementsAre(10, 11, 12, 0));
  EXPECT_THAT(read(arrays.batch.positions, 4), ElementsAre(16, 17, 18, 0));
  EXPECT_THAT(read(arrays.batch.sequence_of, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(read(arrays.batch.query_offsets, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(read(arrays.batch.kv_lengths, 4), ElementsAre(17, 18, 19, 0));
  EXPECT_THAT(read(arrays.batch.block_tables + 2 * 8, 16),
              ElementsAre(2, 10, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(read(arrays.logit_rows, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(arrays.sample_rows[2].uniform, 0.5);
  EXPECT_EQ(arrays.sample_rows[3].temperature, 0.0f);
  EXPECT_EQ(arrays.sample_rows[3].num_adjustments, 0);
  EXPECT_EQ(arrays.adjustments[2].id, 2);
  EXPECT_EQ(arrays.draw, Draw::any);
}

TEST_F(StepInputsTest, SlotsOfStateComeInTheSameCopyAndPaddingHasNone) {
  BatchPlan plan = decode_plan(3);
  for (std::int32_t s = 0; s < 3; ++s) {
    plan.states.push_back({.read = s, .write = 3 + s});
  }
  const StepGraphs::Limits limits{.sequences = 8, .kv_len = 128, .block_tokens = 16};
  bool moved = false;
  const DriverCounters before = device_->driver().counters();
  const StepArrays arrays = inputs_->upload(plan, StepGraphs::padded(StepInputs::shape_of(plan), limits), moved);
  EXPECT_EQ((device_->driver().counters() - before).copies_to_device, 1);
  const std::vector<StateSlots> expected{{.read = 0, .write = 3}, {.read = 1, .write = 4}, {.read = 2, .write = 5}, {}};
  EXPECT_EQ(std::vector<StateSlots>(arrays.batch.states, arrays.batch.states + 4), expected);
  plan.states.clear();
  EXPECT_EQ(inputs_->upload(plan, StepInputs::shape_of(plan), moved).batch.states, nullptr);
}

TEST_F(StepInputsTest, MasksAndRowsOfHiddenStatesComeInTheSameCopy) {
  BatchPlan plan = decode_plan(3);
  plan.hidden_rows = {0, 2};
  plan.sample_rows[1].mask = plan.num_masks();
  std::ranges::fill(plan.add_mask(2), 5u);
  plan.sample_rows[2].mask = plan.num_masks();
  std::ranges::fill(plan.add_mask(2), 6u);
  plan.validate({16}, 16);
  bool moved = true;
  const DriverCounters before = device_->driver().counters();
  const StepArrays arrays = inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  EXPECT_EQ((device_->driver().counters() - before).copies_to_device, 1);
  EXPECT_FALSE(moved);
  EXPECT_THAT(read(arrays.masks, 4), ElementsAre(5, 5, 6, 6));
  EXPECT_THAT(read(arrays.hidden_rows, 2), ElementsAre(0, 2));
  EXPECT_EQ(arrays.num_hidden_rows, 2);
  EXPECT_EQ(arrays.sample_rows[1].mask, 0);
  EXPECT_EQ(arrays.sample_rows[2].mask, 1);
}

TEST_F(StepInputsTest, StepsWithMasksHaveGraphsOfTheirOwn) {
  const StepGraphs::Limits limits{.sequences = 8, .kv_len = 128, .block_tokens = 16};
  BatchPlan plan = decode_plan(4);
  EXPECT_EQ(StepGraphs::padded(StepInputs::shape_of(plan), limits).masks, 0);
  std::vector<const std::uint32_t*> masks;
  for (int i = 0; i < 3; ++i) {
    plan.sample_rows[static_cast<std::size_t>(i)].mask = i;
    plan.add_mask(2);
    const StepInputs::Shape shape = StepGraphs::padded(StepInputs::shape_of(plan), limits);
    EXPECT_EQ(shape.masks, i == 0 ? 1 : i == 1 ? 2 : 4);
    bool moved = false;
    masks.push_back(inputs_->upload(plan, shape, moved).masks);
    EXPECT_EQ(masks.back(), masks.front()) << "masks come before what has no fixed size";
  }
  EXPECT_TRUE(StepGraphs::serves(plan, limits));
  plan.raw_rows = {1};
  EXPECT_FALSE(StepGraphs::serves(plan, limits));
  plan.raw_rows.clear();
  plan.hidden_rows = {1};
  EXPECT_FALSE(StepGraphs::serves(plan, limits));
  plan = decode_plan(3);
  plan.hidden_rows = {0, 1, 2};
  EXPECT_TRUE(StepGraphs::serves(plan, limits)) << "those of all rows";
  EXPECT_EQ(StepGraphs::padded(StepInputs::shape_of(plan), limits).hidden_rows, 4) << "those of the padding too";
}

TEST_F(StepInputsTest, TheSameShapeHasTheSameAddresses) {
  const BatchPlan first = decode_plan(2);
  const BatchPlan second = decode_plan(2);
  bool moved = false;
  const StepArrays a = inputs_->upload(first, StepInputs::shape_of(first), moved);
  const StepArrays b = inputs_->upload(second, StepInputs::shape_of(second), moved);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.batch.block_tables, b.batch.block_tables);
  EXPECT_EQ(a.sample_rows, b.sample_rows);
  EXPECT_EQ(a.adjustments, b.adjustments);
}

TEST_F(StepInputsTest, AStagingBufferIsNotWrittenWhileACopyMayReadIt) {
  const BatchPlan plan = decode_plan(2);
  bool moved = false;
  log_->unfinished = true;
  inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  EXPECT_EQ(device_->driver().counters().synchronizations, start_.synchronizations);
  inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  EXPECT_EQ(device_->driver().counters().synchronizations, start_.synchronizations + 1);
}

TEST_F(StepInputsTest, AnyNumberOfAdjustmentsFindsRoom) {
  BatchPlan plan = decode_plan(2);
  plan.adjustments.assign(100'000, {.id = 77});
  bool moved = false;
  const StepArrays arrays = inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  EXPECT_TRUE(moved);
  EXPECT_EQ(arrays.adjustments[99'999].id, 77);
  inputs_->upload(plan, StepInputs::shape_of(plan), moved);
  EXPECT_FALSE(moved) << "the room stays";
}

TEST(StepGraphs, OnlyStepsOfSingleRowsWithLogitsAreRecorded) {
  const StepGraphs::Limits limits{.sequences = 2, .kv_len = 2048, .block_tokens = 16};
  const std::vector<std::int32_t> one{1};
  const std::vector<std::int32_t> two{1, 2};
  const auto plan = [&](std::initializer_list<bool> wants, std::span<const std::int32_t> tokens) {
    BatchPlan batch;
    batch.clear();
    for (const bool wanted : wants) {
      batch.add_sequence(tokens, 0, one, wanted);
    }
    batch.finish();
    return batch;
  };
  EXPECT_TRUE(StepGraphs::serves(plan({true}, one), limits));
  EXPECT_TRUE(StepGraphs::serves(plan({true, true}, one), limits));
  EXPECT_FALSE(StepGraphs::serves(plan({true, false}, one), limits)) << "a prompt goes on";
  EXPECT_FALSE(StepGraphs::serves(plan({true}, two), limits));
  EXPECT_FALSE(StepGraphs::serves(plan({true, true, true}, one), limits)) << "more than the limit";
}

TEST(StepGraphs, ShapesAreRoundedUpToAtMostTheLimits) {
  const auto padded = [](std::int32_t sequences, std::int32_t kv_len) {
    const StepGraphs::Limits limits{.sequences = 12, .kv_len = 5000, .block_tokens = 32};
    const StepInputs::Shape shape = StepGraphs::padded(
        {.tokens = sequences, .sequences = sequences, .max_blocks = (kv_len + 31) / 32, .max_kv_len = kv_len}, limits);
    EXPECT_EQ(shape.tokens, shape.sequences);
    EXPECT_EQ(shape.logit_rows, shape.sequences);
    EXPECT_GE(shape.max_blocks * 32, shape.max_kv_len);
    return std::pair(shape.sequences, shape.max_kv_len);
  };
  EXPECT_EQ(padded(1, 1), std::pair(1, 1024));
  EXPECT_EQ(padded(3, 1024), std::pair(4, 1024));
  EXPECT_EQ(padded(8, 1025), std::pair(8, 2048));
  EXPECT_EQ(padded(9, 4097), std::pair(12, 5000));
  EXPECT_EQ(padded(12, 5000), std::pair(12, 5000));
}

}  // namespace
}  // namespace rocmforge
