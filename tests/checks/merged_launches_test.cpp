// The check of merged launches: on the device of the tests, and with kernels whose faults show only when calls follow each
// other often.

#include "checks/merged_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "check/check_report.h"
#include "checks/device_cases.h"
#include "checks/oracle.h"
#include "checks/product_groups.h"

namespace rocmforge::test {
namespace {

using app::CaseReport;
using app::CaseVerdict;
using app::CheckRun;
using testing::HasSubstr;

enum class ChainFault { none, endless, other_bits, wrong };

/// The processor's plain kernel, but for its fault: in the merged run, or in every call.
class ChainKernel final : public MatmulKernel {
 public:
  ChainKernel(const MatmulKernel& plain, ChainFault fault) : plain_(plain), fault_(fault) {}
  [[nodiscard]] std::string_view name() const override { return "chain"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }
  [[nodiscard]] Support supports(const Matmul::Spec& spec, const DeviceInfo& device) const override {
    return plain_.supports(spec, device);
  }
  [[nodiscard]] std::size_t packed_bytes(const Matmul::Spec& spec) const override { return plain_.packed_bytes(spec); }
  void pack(const Matmul::Spec& spec, const void* rows, void* packed, ExecutionContext& context) const override {
    plain_.pack(spec, rows, packed, context);
  }
  [[nodiscard]] std::size_t workspace_bytes(std::int64_t tokens, std::int64_t k) const override {
    return plain_.workspace_bytes(tokens, k);
  }
  [[nodiscard]] MatmulFusions fusions() const override { return plain_.fusions(); }
  [[nodiscard]] bool merges_launches(const DeviceInfo&) const override { return true; }

  void run(const Matmul::Args& args, ExecutionContext& context) const override {
    constexpr int calls_before_merging = 4 + 2 * 4;  // each product once, then two layers with a launch each
    const bool merged = ++calls_ > calls_before_merging;
    plain_.run(args, context);
    if (fault_ == ChainFault::endless && merged) {
      std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (fault_ == ChainFault::wrong || (fault_ == ChainFault::other_bits && merged)) {
      args.outputs[0].out[3] *= fault_ == ChainFault::wrong ? 3.0f : 1.0000002f;
    }
  }

 private:
  const MatmulKernel& plain_;
  ChainFault fault_;
  mutable int calls_ = 0;
};

LayerProducts small_layer(const MatmulKernel& kernel, DType usual = DType::q8_0, DType better = DType::q8_0) {
  return {.name = "a small model",
          .calls = {{{{usual, 256, 512}},
                     {{usual, 768, 256}, {usual, 768, 256}},
                     {{better, 256, 768}},
                     {{usual, 512, 256}, {better, 256, 256}}}},
          .kernel = &kernel};
}

/// Children that check one layer on the processor.
CheckRun check_with(ChainFault fault, std::chrono::milliseconds call = std::chrono::seconds(60)) {
  const auto make = [fault] {
    app::CheckSetUp set_up;
    set_up.device = std::make_unique<Device>();
    set_up.pool = std::make_unique<ThreadPool>(1);
    auto registry = std::make_unique<KernelRegistry>();
    register_all_kernels(*registry, set_up.device.get());
    const DeviceInfo cpu = set_up.device->info();
    auto kernel = std::make_unique<ChainKernel>(*oracle_of<Matmul>(*registry, {DType::q8_0, 256, 256}, cpu), fault);
    const LayerProducts layer = small_layer(*kernel);
    registry->add<Matmul>(std::move(kernel));
    set_up.cases = merged_launch_cases(std::vector{layer}, *registry, cpu);
    set_up.registry = std::move(registry);
    return set_up;
  };
  app::ParentOptions options;
  options.call = call;
  return app::check_in_children(make, options);
}

TEST(MergedLaunchesCheck, RightOnesAreTimedBesideALaunchEach) {
  const CheckRun run = check_with(ChainFault::none);
  ASSERT_EQ(run.cases.size(), 1u);
  const CaseReport& one = run.cases[0];
  EXPECT_EQ(one.verdict, CaseVerdict::right) << one.detail;
  EXPECT_EQ(one.elements, 256 + 768 + 256 + 768);
  EXPECT_GT(one.seconds, 0.0);
  EXPECT_GT(one.seconds_apart, 0.0);
  ASSERT_TRUE(app::merged_launches_of(run));
  EXPECT_THAT(app::merged_launches_of(run)->found, HasSubstr("right, layers take "));
  EXPECT_THAT(app::text_report(run), HasSubstr(" with a launch each) |"));
}

TEST(MergedLaunchesCheck, ThoseThatNeverEndAreNamed) {
  const CheckRun run = check_with(ChainFault::endless, std::chrono::milliseconds(300));
  EXPECT_EQ(run.cases.at(0).verdict, CaseVerdict::hung);
  EXPECT_THAT(app::screen_report(run), HasSubstr("HUNG: merged launches chain ("));
  EXPECT_TRUE(app::failed_kernels(run).empty()) << "the kernel by itself is right";
  ASSERT_TRUE(app::merged_launches_of(run));
  EXPECT_FALSE(app::merged_launches_of(run)->pays);
  EXPECT_EQ(app::merged_launches_of(run)->found, "hung with layers of a small model");
}

TEST(MergedLaunchesCheck, OtherBitsAndWrongProductsAreFound) {
  const CheckRun other = check_with(ChainFault::other_bits);
  EXPECT_EQ(other.cases.at(0).verdict, CaseVerdict::wrong);
  EXPECT_EQ(other.cases[0].detail, "merged launches gave other bits than a launch for each product, alone");
  EXPECT_FALSE(app::merged_launches_of(other)->pays);
  const CheckRun wrong = check_with(ChainFault::wrong);
  EXPECT_EQ(wrong.cases.at(0).verdict, CaseVerdict::wrong);
  EXPECT_THAT(wrong.cases[0].detail, HasSubstr("elements of attn_output are wrong"));
}

TEST(MergedLaunchesCheck, SlowerOnesDoNotPayAndOnesNotReachedSayNothing) {
  CheckRun run;
  EXPECT_FALSE(app::merged_launches_of(run));
  run.cases.push_back({.operation = std::string(merged_launches_operation),
                       .spec = "",
                       .kernel = "amd",
                       .shape = "layers of a",
                       .verdict = CaseVerdict::right,
                       .detail = "",
                       .oracle = "",
                       .seconds = 2e-4,
                       .seconds_apart = 1e-4});
  ASSERT_TRUE(app::merged_launches_of(run));
  EXPECT_FALSE(app::merged_launches_of(run)->pays);
  EXPECT_EQ(app::merged_launches_of(run)->found, "right, layers take 200.0 us in place of 100.0");
  run.cases[0].seconds = 0.5e-4;
  EXPECT_TRUE(app::merged_launches_of(run)->pays);
  run.cases.push_back(run.cases[0]);
  run.cases[1].verdict = CaseVerdict::not_reached;
  EXPECT_FALSE(app::merged_launches_of(run));
}

TEST(MergedLaunchesCheck, ThePlanGivesTheModelsShapes) {
  KernelRegistry registry;
  register_all_kernels(registry);
  const DeviceInfo cpu = cpu_device_info();
  const ChainKernel kernel(*oracle_of<Matmul>(registry, {DType::q8_0, 256, 256}, cpu), ChainFault::none);
  const LayerProducts wanted = small_layer(kernel);
  const auto merging = [&](const MatmulKernel& one) { return one.merges_launches(cpu); };
  const auto operation = [&](const char* name, std::size_t call) {
    PlannedOperation planned;
    planned.operation = name;
    for (const Matmul::Spec& spec : wanted.calls[call]) {
      planned.uses.emplace_back(KernelUse<Matmul>{spec, &kernel});
    }
    return planned;
  };
  std::vector<PlannedOperation> plan = {operation("blk.0.attn_qkv", 3), operation("blk.0.attn_output", 0),
                                        operation("blk.0.ffn_gate_up", 1), operation("blk.0.ffn_down", 2),
                                        operation("blk.1.ffn_down", 0)};
  const std::optional<LayerProducts> found = layer_of_plan(plan, merging);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kernel, &kernel);
  EXPECT_EQ(found->calls[2][0].k, 768) << "of the first layer";
  EXPECT_EQ(found->calls[3].size(), 2u);
  plan.erase(plan.begin() + 2);
  EXPECT_FALSE(layer_of_plan(plan, merging)) << "a model with experts has no gate and up";
  EXPECT_TRUE(layers_of_models(registry, cpu, merging).empty()) << "no kernel of a processor merges";
}

TEST(ProductGroups, TheFastestChoiceIsTakenWhereItPays) {
  CheckRun run;
  for (const char* choice : {"1 a unit", "1.5 a unit", "2 a unit"}) {
    EXPECT_FALSE(app::product_groups_of(run));
    run.cases.push_back({.operation = std::string(product_groups_operation),
                         .spec = "",
                         .kernel = "amd",
                         .shape = choice,
                         .verdict = CaseVerdict::right,
                         .detail = "",
                         .oracle = "",
                         .seconds = 1e-4});
  }
  EXPECT_EQ(app::product_groups_of(run), 1.0);
  run.cases[2].seconds = 0.995e-4;
  EXPECT_EQ(app::product_groups_of(run), 1.0) << "hardly faster";
  run.cases[1].seconds = 0.9e-4;
  EXPECT_EQ(app::product_groups_of(run), 1.5);
  run.cases[2].verdict = CaseVerdict::wrong;
  EXPECT_FALSE(app::product_groups_of(run));
}

class ProductGroupsOnDevice : public DeviceCases {};

/// On one of AMD's devices every choice gives the same bits.
TEST_F(ProductGroupsOnDevice, HaveTheSameBits) {
  const MatmulKernel* const best =
      device().is_gpu() ? registry_.candidates<Matmul>({DType::q4_k, 256, 256}, device().info()).able.at(0) : nullptr;
  if (best == nullptr || best->name() != "amd") {
    GTEST_SKIP() << "no kernel of this device has a choice of work-groups";
  }
  CheckBench bench(device(), registry_, pool_);
  const auto cases =
      product_group_cases(small_layer(*best, DType::q4_k, DType::q6_k), product_group_choices(), choose_product_groups);
  EXPECT_EQ(cases.size(), 3u);
  for (const KernelCase& one : cases) {
    const CallResult result = one.run(bench);
    EXPECT_EQ(result.problem, "") << one.shape;
    EXPECT_GT(result.seconds, 0.0) << one.shape;
  }
}

class MergedLaunchesOnDevice : public DeviceCases, public testing::WithParamInterface<std::pair<DType, DType>> {};

TEST_P(MergedLaunchesOnDevice, AreRight) {
  const auto [usual, better] = GetParam();
  const MatmulKernel* const best =
      device().is_gpu() ? registry_.candidates<Matmul>({usual, 256, 256}, device().info()).able.at(0) : nullptr;
  if (best == nullptr || !best->merges_launches(device().info())) {
    GTEST_SKIP() << "no kernel of this device merges launches";
  }
  const auto merging = [&](const MatmulKernel& one) { return one.merges_launches(device().info()); };
  EXPECT_FALSE(layers_of_models(registry_, device().info(), merging).empty());
  CheckBench bench(device(), registry_, pool_);
  const std::vector<LayerProducts> layers = {small_layer(*best, usual, better)};
  const auto cases = merged_launch_cases(layers, registry_, device().info());
  ASSERT_EQ(cases.size(), 1u);
  const CallResult result = cases[0].run(bench);
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.skipped, "");
  EXPECT_EQ(result.elements, 256 + 768 + 256 + 768);
}

/// Norms behind attention's output and down.
TEST_P(MergedLaunchesOnDevice, AreRightWithNorms) {
  const auto [usual, better] = GetParam();
  const Candidates<Matmul> dense = registry_.candidates<Matmul>({usual, 256, 256}, device().info());
  const RmsNorm::Spec spec{.dim = 256};
  if (!device().is_gpu() || !dense.able.at(0)->merges_launches(device().info())) {
    GTEST_SKIP() << "no kernel of this device merges launches";
  }
  const auto merging = [&](const MatmulKernel& one) { return one.merges_launches(device().info()); };
  EXPECT_EQ(norm_layers_of_models(registry_, device().info(), merging).size(), 1u);
  LayerProducts layer = small_layer(*dense.able.at(0), usual, better);
  layer.norms = LayerNorms{spec, registry_.candidates<RmsNorm>(spec, device().info()).able.at(0)};
  CheckBench bench(device(), registry_, pool_);
  const auto cases = merged_launch_cases(std::vector{layer}, registry_, device().info());
  ASSERT_EQ(cases.size(), 1u);
  const CallResult result = cases[0].run(bench);
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.skipped, "");
  EXPECT_EQ(result.elements, 256 + 768 + 256 + 768);
}

/// The router, experts, and the dense products before and behind them.
TEST_P(MergedLaunchesOnDevice, AreRightWithExperts) {
  const auto [usual, better] = GetParam();
  const LayerExperts shapes{.route = {.route = {.experts = 4, .used = 3}, .hidden = 256},
                            .gate_up = {usual, 4, 256, 256, 3},
                            .down = {better, 4, 256, 256, 3}};
  const Candidates<Matmul> dense = registry_.candidates<Matmul>({usual, 256, 256}, device().info());
  const Candidates<RouteRows> router = registry_.candidates<RouteRows>(shapes.route, device().info());
  const Candidates<ExpertMatmul> experts = registry_.candidates<ExpertMatmul>(shapes.gate_up, device().info());
  if (!device().is_gpu() || !dense.able.at(0)->merges_launches(device().info())) {
    GTEST_SKIP() << "no kernel of this device merges launches";
  }
  const auto merging = [&](const MatmulKernel& one) { return one.merges_launches(device().info()); };
  EXPECT_EQ(expert_layers_of_models(registry_, device().info(), merging).size(), 1u);
  LayerProducts layer = small_layer(*dense.able.at(0), usual, better);
  layer.calls[1] = layer.calls[2] = {};
  layer.experts = shapes;
  layer.experts->router = router.able.at(0);
  layer.experts->kernel = experts.able.at(0);
  CheckBench bench(device(), registry_, pool_);
  const auto cases = merged_launch_cases(std::vector{layer}, registry_, device().info());
  ASSERT_EQ(cases.size(), 1u);
  const CallResult result = cases[0].run(bench);
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.skipped, "");
  EXPECT_EQ(result.elements, 256 + 3 * 256 + 256 + 768);
}

INSTANTIATE_TEST_SUITE_P(DeviceCases, MergedLaunchesOnDevice,
                         testing::Values(std::pair(DType::q4_0, DType::q4_0), std::pair(DType::q4_k, DType::q6_k)));

}  // namespace
}  // namespace rocmforge::test
