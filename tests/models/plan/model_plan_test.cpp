#include "models/plan/model_plan.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rocmforge::testing {
namespace {

std::int64_t floats_between(const float* from, const float* to) { return to - from; }

TEST(BufferPlan, ABufferHasTheMostThatAnyPartAsksFor) {
  BufferPlan plan(4, 2);
  EXPECT_EQ(plan.size_bytes(), 0u);
  plan.need(BufferName::projected, 64);
  EXPECT_EQ(plan.size_bytes(), 4u * 64 * 4);
  plan.need(BufferName::projected, 32);
  EXPECT_EQ(plan.size_bytes(), 4u * 64 * 4);
  plan.need(BufferName::projected, 128);
  EXPECT_EQ(plan.size_bytes(), 4u * 128 * 4);
  plan.need_rows(BufferName::logits, plan.logit_rows(), 64);
  plan.need_bytes(BufferName::scratch, 1);
  EXPECT_EQ(plan.size_bytes(), 4u * 128 * 4 + 2 * 64 * 4 + 256);
}

TEST(BufferPlan, BuffersLieBehindEachOtherAtAlignedPlaces) {
  BufferPlan plan(3, 1);
  plan.need(BufferName::hidden, 5);
  plan.need(BufferName::normed, 100);
  plan.need_bytes(BufferName::single_attention_state, 7);
  alignas(256) std::byte memory[4096];
  const Buffers buffers = plan.place(memory);
  EXPECT_EQ(static_cast<void*>(buffers.hidden), memory);
  EXPECT_EQ(floats_between(buffers.hidden, buffers.normed), 64);
  EXPECT_EQ(floats_between(buffers.normed, buffers.projected), 320);
  EXPECT_EQ(static_cast<std::byte*>(buffers.attention_states[1]) + 256, memory + plan.size_bytes());
}

TEST(BufferPlan, AfterAGatherTheOtherBufferHasRoomForHalfOfTheRows) {
  BufferPlan plan(2, 2);
  plan.need_after_gather(BufferName::projected, 257);
  std::vector<std::byte> memory(plan.size_bytes());
  const Buffers buffers = plan.place(memory.data());
  EXPECT_EQ(floats_between(buffers.projected, buffers.gathered), 576);  // 2 * 257, rounded up to 64 floats
  EXPECT_EQ(plan.size_bytes(), 4u * (576 + 320));                       // 2 * 129, likewise
}

TEST(MemoryPlan, LayersOfOneWindowShareAGroup) {
  MemoryPlan plan;
  const KvLayout wide{.kv_heads = 2, .head_dim = 64};
  const KvLayout narrow{.kv_heads = 1, .head_dim = 32};
  EXPECT_EQ(plan.add_plane(0, wide), (KvPlace{0, 0}));
  EXPECT_EQ(plan.add_plane(128, narrow), (KvPlace{1, 0}));
  EXPECT_EQ(plan.add_plane(0, narrow), (KvPlace{0, 1}));
  EXPECT_EQ(plan.plane({0, 1}), narrow);
  ASSERT_EQ(plan.groups().size(), 2u);
  EXPECT_EQ(plan.groups()[1].window, 128);
}

TEST(MemoryPlan, StatesLieBehindEachOtherInASlot) {
  MemoryPlan plan;
  EXPECT_EQ(plan.add_state(10), 0);
  EXPECT_EQ(plan.add_state(300), 256);
  EXPECT_EQ(plan.state_bytes(), 256u + 512u);
}

PlannedOperation norm_of(const char* spec) {
  return {.operation = "rms_norm", .spec = spec, .kernel = "cpu", .refusals = {}};
}

TEST(PlanReport, LayersWithTheSameOperationShareALine) {
  PlanReport report;
  report.add(norm_of("dim 64"));
  report.add(norm_of("dim 64"));
  report.add(norm_of("dim 32"));
  ASSERT_EQ(report.operations().size(), 2u);
  EXPECT_EQ(report.operations()[0].times, 2);
}

TEST(PlanReport, APartHasALineOfItsOwnInPlaceOfOneRun) {
  PlanReport report;
  report.add(norm_of("dim 64"));
  report.add(norm_of("dim 64"));
  report.make_part("rms_norm", "dim 64", "ffn_up", 8);
  ASSERT_EQ(report.operations().size(), 2u);
  EXPECT_EQ(report.operations()[0].times, 1);
  EXPECT_EQ(report.operations()[1].part_of, "ffn_up");
  report.make_part("rms_norm", "dim 64", "ffn_up", 8);
  ASSERT_EQ(report.operations().size(), 1u);
  EXPECT_EQ(report.operations()[0].times, 2);
  EXPECT_TRUE(report.operations()[0].is_part(8));
  EXPECT_FALSE(report.operations()[0].is_part(9));
}

TEST(PlanReport, WhatIsBehindTheDecodeStepsIsNotCounted) {
  PlanReport report;
  report.add_weight_bytes(100);
  report.leave_decode_steps();
  report.add_weight_bytes(50);
  report.add(norm_of("dim 64"));
  EXPECT_EQ(report.bytes_per_token(), 100u);
  EXPECT_EQ(report.operations()[0].times, 0);
}

}  // namespace
}  // namespace rocmforge::testing
