// What the measurements of kernels and steps find: kernels that are right in all but one way, put in by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "bench/step_check.h"
#include "bench/timed_attention.h"
#include "bench/timed_matmul.h"
#include "checks/bad_kernels.h"
#include "checks/device_cases.h"
#include "checks/oracle.h"
#include "test_device.h"

namespace rocmforge::test {
namespace {

using app::AttentionInputs;
using app::MatmulInputs;
using app::TimedAttention;
using app::TimedMatmul;
using app::WeightCopies;
using testing::HasSubstr;

/// Changes the output of a call: its number from 0, [elements].
using Fault = std::function<void(int call, std::span<float> out)>;

/// A kernel of another one's results with a fault.
class BadMatmul final : public MatmulKernel {
 public:
  BadMatmul(const MatmulKernel& right, Fault fault) : right_(right), fault_(std::move(fault)) {}
  [[nodiscard]] std::string_view name() const override { return "bad"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const Matmul::Spec&, const DeviceInfo&) const override { return Support::yes(); }
  [[nodiscard]] std::size_t packed_bytes(const Matmul::Spec& spec) const override { return right_.packed_bytes(spec); }
  void pack(const Matmul::Spec& spec, const void* rows, void* packed, ExecutionContext& context) const override {
    right_.pack(spec, rows, packed, context);
  }
  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    return right_.workspace_bytes(tokens, k);
  }
  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    right_.run(args, context);
    fault_(calls_++, {args.outputs[0].out, static_cast<std::size_t>(args.tokens * args.outputs[0].n)});
  }

 private:
  const MatmulKernel& right_;
  Fault fault_;
  mutable int calls_ = 0;
};

class BadAttention final : public AttentionBackend {
 public:
  BadAttention(const AttentionBackend& right, Fault fault) : right_(right), fault_(std::move(fault)) {}
  [[nodiscard]] std::string_view name() const override { return "bad"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const Attention::Spec&, const DeviceInfo&) const override { return Support::yes(); }
  [[nodiscard]] KvLayout layout(const Attention::Spec& spec) const override { return right_.layout(spec); }
  [[nodiscard]] std::size_t workspace_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    return right_.workspace_bytes(spec, limits);
  }
  [[nodiscard]] std::size_t state_bytes(const Attention::Spec& spec, const AttentionLimits& limits) const override {
    return right_.state_bytes(spec, limits);
  }
  void run(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args,
           ExecutionContext& context) const override {
    const std::int64_t width = std::int64_t{spec.q_heads} * spec.out_dim();
    std::vector<float> kept(static_cast<std::size_t>(width));  // the last row as it was before the call
    float* const last = static_cast<float*>(args.out) + (args.batch.num_tokens - 1) * width;
    std::copy_n(last, width, kept.begin());
    right_.run(spec, layout, args, context);
    fault_(calls_++, {last, static_cast<std::size_t>(width)});
    if (!std::isfinite(last[0])) {
      std::ranges::copy(kept, last);  // not written
    }
  }

 private:
  const AttentionBackend& right_;
  Fault fault_;
  mutable int calls_ = 0;
};

void change_nothing(int /*call*/, std::span<float> /*out*/) {}

class TimedKernels : public testing::Test {
 protected:
  TimedKernels() : pool_(2) {
    register_all_kernels(registry_);
    context_.pool = &pool_;
  }

  const MatmulKernel& own_matmul() { return *registry_.choose<Matmul>(product_, device_.info()).kernel; }
  const AttentionBackend& own_attention(const Attention::Spec& spec) {
    return *registry_.choose<Attention>(spec, device_.info()).kernel;
  }
  /// What check_each() finds in a product of 3 tokens.
  OutputDifference products_with(const Fault& fault) {
    const BadMatmul kernel(own_matmul(), fault);
    MatmulInputs inputs(device_, context_, registry_, product_, 3);
    const WeightCopies weights(device_, context_, kernel, inputs);
    return TimedMatmul(device_, context_, kernel, inputs, weights, 3).check_each();
  }

  Device device_;
  ThreadPool pool_;
  KernelRegistry registry_;
  ExecutionContext context_;
  const Matmul::Spec product_{DType::q8_0, 48, 64};
};

Attention::Spec small_attention(bool decode) {
  Attention::Spec spec;
  spec.q_heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 64;
  spec.kv_dtype = DType::f16;
  spec.most_rows = decode ? 1 : 0;
  return spec;
}

TEST_F(TimedKernels, ARightProductIsRightInEveryElement) {
  const OutputDifference found = products_with(change_nothing);
  EXPECT_TRUE(found.right());
  EXPECT_EQ(found.elements, 3 * 48);
  EXPECT_GT(found.relative, 0.0);
}

TEST_F(TimedKernels, OneWrongElementOfAProductIsNamed) {
  const OutputDifference found = products_with([](int, std::span<float> out) { out[2 * 48 + 7] += 50.0f; });
  EXPECT_THAT(describe(found, "out"), HasSubstr("1 of 144 elements of out are wrong, the first in row 2, column 7: "));
}

TEST_F(TimedKernels, AnElementThatIsNotWrittenIsNamed) {
  const Fault fault = [](int, std::span<float> out) { out[5] = std::numeric_limits<float>::quiet_NaN(); };
  EXPECT_THAT(describe(products_with(fault), "out"),
              HasSubstr("1 of 144 elements of out are wrong (1 not written), the first in row 0, column 5"));
}

TEST_F(TimedKernels, OnlyOneOfTheSetsIsWrong) {
  const OutputDifference found = products_with([](int call, std::span<float> out) { out[0] += call == 1 ? 50.0f : 0.0f; });
  EXPECT_EQ(found.wrong, 1);
}

/// A kernel that is right when it is looked at, and wrong once it is called often.
TEST_F(TimedKernels, WhatTheLastTimedCallLeftIsCompared) {
  int wrong_from = std::numeric_limits<int>::max();
  const BadMatmul kernel(own_matmul(), [&](int call, std::span<float> out) { out[3] += call >= wrong_from ? 50.0f : 0.0f; });
  MatmulInputs inputs(device_, context_, registry_, product_, 1);
  const WeightCopies weights(device_, context_, kernel, inputs);
  TimedMatmul calls(device_, context_, kernel, inputs, weights, 1);
  EXPECT_TRUE(calls.check_each().right());
  EXPECT_EQ(calls.check_last(0).missing, 48) << "the output is poisoned before the timed calls";
  calls.run(1);
  EXPECT_TRUE(calls.check_last(1).right());
  wrong_from = 0;
  calls.run(0);
  EXPECT_EQ(calls.check_last(0).wrong, 1);
}

TEST_F(TimedKernels, AttentionIsComparedWithEveryCache) {
  for (const bool decode : {false, true}) {
    const Attention::Spec spec = small_attention(decode);
    const AttentionBackend& own = own_attention(spec);
    const app::AttentionWork work{2, decode ? 1 : 20, 70};
    AttentionInputs inputs(device_, context_, registry_, spec, own.layout(spec), work);
    EXPECT_EQ(inputs.sets(), decode ? 128 : 1);
    const OutputDifference right = TimedAttention(device_, context_, own, inputs).check_each();
    EXPECT_TRUE(right.right()) << describe(right, "out");
    EXPECT_EQ(right.elements, 2 * work.q_len * 4 * 64);
    const int bad_call = inputs.sets() - 1;
    const BadAttention wrong(own, [&](int call, std::span<float> out) { out[9] += call == bad_call ? 1.0f : 0.0f; });
    const OutputDifference found = TimedAttention(device_, context_, wrong, inputs).check_each();
    EXPECT_EQ(found.wrong, 1);
    EXPECT_EQ(found.first_row, (2 * work.q_len - 1) * 4);
    EXPECT_EQ(found.first_column, 9);
  }
}

TEST_F(TimedKernels, ARowThatAttentionLeavesOutIsNotWritten) {
  const Attention::Spec spec = small_attention(false);
  const AttentionBackend& own = own_attention(spec);
  AttentionInputs inputs(device_, context_, registry_, spec, own.layout(spec), {2, 20, 70});
  const BadAttention kernel(own, [](int, std::span<float> out) { out[0] = std::numeric_limits<float>::quiet_NaN(); });
  const OutputDifference found = TimedAttention(device_, context_, kernel, inputs).check_each();
  EXPECT_EQ(found.missing, 4 * 64);
  EXPECT_EQ(found.first_row, 39 * 4);
}

TEST_F(DeviceCases, TimedCallsOfTheTestDeviceAreCompared) {
  ExecutionContext context{&pool_, device().is_gpu() ? &device().stream() : nullptr};
  const Matmul::Spec product{DType::f32, 16, 32};
  const MatmulKernel& matmul = *registry_.choose<Matmul>(product, device().info(), device().is_gpu() ? "gpu" : "").kernel;
  MatmulInputs numbers(device(), context, registry_, product, 1);
  const WeightCopies weights(device(), context, matmul, numbers);
  TimedMatmul products(device(), context, matmul, numbers, weights, 1);
  const OutputDifference of_products = products.check_each();
  EXPECT_TRUE(of_products.right()) << describe(of_products, "out");
  EXPECT_EQ(of_products.elements, 16);
  EXPECT_EQ(products.check_last(0).missing, 16) << "poisoned for the timed calls";

  Attention::Spec spec = small_attention(false);
  spec.q_heads = 2;
  spec.kv_heads = 1;
  const AttentionBackend& attention =
      *registry_.choose<Attention>(spec, device().info(), device().is_gpu() ? "paged_rows" : "").kernel;
  AttentionInputs inputs(device(), context, registry_, spec, attention.layout(spec), {1, 3, 5});
  const OutputDifference of_attention = TimedAttention(device(), context, attention, inputs).check_each();
  EXPECT_TRUE(of_attention.right()) << describe(of_attention, "out");
  EXPECT_EQ(of_attention.elements, 3 * 2 * 64);
}

/// A step's kernels at its very shapes.
class StepKernels : public TimedKernels {
 protected:
  app::StepCheck check_norm(const std::string& name, const StepShape& step) {
    const BadNorm kernel(name);
    CheckBench bench(device_, registry_, pool_);
    return app::check_step(bench, {KernelUse<RmsNorm>{{64, 1e-5f}, &kernel}}, step);
  }
};

TEST_F(StepKernels, ARightKernelIsCheckedAtTheStepsShape) {
  const app::StepCheck found = check_norm("right", app::step_of(5, 1, 100));
  EXPECT_TRUE(found.wrong.empty());
  EXPECT_EQ(found.elements, 5 * 64);
  EXPECT_EQ(found.reduced, 0);
  EXPECT_EQ(found.summary(), "1 calls of the kernels of these steps compared with oracles, 320 elements: right");
  EXPECT_EQ(app::print_step_check(found), 0);
}

TEST_F(StepKernels, AWrongKernelIsNamedWithShapeCountAndPlace) {
  const app::StepCheck found = check_norm("wrong", app::step_of(1, 37, 100));
  ASSERT_EQ(found.wrong.size(), 1u);
  EXPECT_THAT(found.wrong[0], HasSubstr("rms_norm wrong (dim 64 eps 1e-05), 37 tokens: 1 of 2368 elements of out are wrong, "
                                        "the first in row 36, column 5: "));
  EXPECT_EQ(app::print_step_check(found), 1);
  EXPECT_THAT(check_norm("a_row_less", app::step_of(7, 1, 0)).wrong.at(0), HasSubstr("(64 not written)"));
}

TEST_F(StepKernels, AStepRunsTheAttentionOfItsPhase) {
  std::vector<PlannedOperation> plan(2);
  for (const bool decode : {false, true}) {
    const Attention::Spec spec = small_attention(decode);
    const AttentionBackend& own = own_attention(spec);
    plan[0].uses.emplace_back(KernelUse<Attention>{spec, &own, own.layout(spec)});
  }
  plan[1].part_of = "attention";  // included in the attention of decodes
  plan[1].part_tokens = 4;
  plan[1].uses.emplace_back(KernelUse<GatherRows>{{64}, registry_.choose<GatherRows>({64}, device_.info()).kernel});
  const StepShape decodes = app::step_of(3, 1, 40);
  const StepShape prompt = app::step_of(1, 30, 40);
  EXPECT_EQ(app::uses_of_step(plan, decodes).size(), 1u);
  EXPECT_EQ(app::uses_of_step(plan, prompt).size(), 2u);
  CheckBench bench(device_, registry_, pool_);
  const app::StepCheck found = app::check_step(bench, app::uses_of_step(plan, decodes), decodes);
  EXPECT_TRUE(found.wrong.empty());
  EXPECT_EQ(found.elements, 3 * 4 * 64);
  const app::StepCheck of_prompt = app::check_step(bench, app::uses_of_step(plan, prompt), prompt);
  EXPECT_EQ(of_prompt.elements, 30 * 4 * 64 + 30 * 64);
}

/// An oracle that would take minutes gets as many tokens as it can compute, and the report says so.
TEST_F(StepKernels, CallsThatTheOracleCannotComputeAreReduced) {
  const Matmul::Spec spec{DType::f16, 64, 64};
  const std::vector<KernelRegistry::AnyUse> uses = {
      KernelUse<Matmul>{spec, registry_.choose<Matmul>(spec, device_.info()).kernel}};
  const CaseOptions options{.limits = limits_of(app::step_of(1, 100, 0)), .host_work = 64.0 * 64 * 20, .only_largest = true};
  for (const KernelCase& one : cases_of(uses, registry_, device_.info(), options)) {
    EXPECT_TRUE(one.is_reduced);
    EXPECT_THAT(one.shape, testing::AnyOf(HasSubstr("17 tokens"), HasSubstr("8 tokens, "))) << one.shape;
  }
}

}  // namespace
}  // namespace rocmforge::test
