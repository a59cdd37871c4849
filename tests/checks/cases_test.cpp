#include "checks/cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "kernels/register_all.h"
#include "test_device.h"

namespace rocmforge {
namespace {

/// The processor with all kernels, and cases small enough for a test.
class SmallCases : public testing::Test {
 protected:
  SmallCases() : pool_(2) { register_all_kernels(registry_); }

  std::vector<CallResult> run(const std::vector<KernelRegistry::AnyUse>& uses, double work) {
    const CaseOptions options{.limits = {.max_tokens = 17, .max_step_tokens = 100}, .device_work = work, .host_work = work};
    CheckBench bench(device_, registry_, pool_);
    std::vector<CallResult> results;
    for (const KernelCase& one : cases_of(uses, registry_, device_.info(), options)) {
      SCOPED_TRACE(one.operation + " " + one.kernel + " " + one.spec + ", " + one.shape);
      results.push_back(one.run(bench));
      EXPECT_EQ(results.back().problem, "");
      EXPECT_GT(results.back().elements, 0);
      EXPECT_GT(results.back().bytes, 0.0);
      operations_.insert(one.operation);
    }
    return results;
  }

  /// The best kernel for a spec; the reference where there is no other.
  template <class Op>
  KernelRegistry::AnyUse best(const typename Op::Spec& spec) {
    return KernelUse<Op>{spec, registry_.choose<Op>(spec, device_.info()).kernel};
  }
  KernelRegistry::AnyUse attention(Attention::Spec spec, bool decode) {
    spec.decode = decode;
    const AttentionBackend* kernel = registry_.choose<Attention>(spec, device_.info()).kernel;
    return KernelUse<Attention>{spec, kernel, kernel->layout(spec)};
  }
  RopeAppend::Spec rope(DType dtype) const {
    return {.kind = RopeKind::half,
            .q_heads = 4,
            .head_dim = 64,
            .n_rot = 64,
            .head_norm = true,
            .layout = {.dtype = dtype, .block_tokens = 16, .kv_heads = 2, .head_dim = 64}};
  }

  Device device_;
  ThreadPool pool_;
  KernelRegistry registry_;
  std::set<std::string> operations_;
};

Attention::Spec heads(DType dtype) {
  Attention::Spec spec;
  spec.q_heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 64;
  spec.kv_dtype = dtype;
  return spec;
}

TEST_F(SmallCases, EveryOperationIsRightOnTheProcessor) {
  const RouteTokens::Spec route{.experts = 16, .used = 4, .bias = true, .normalise = true};
  const LatentAppend::Spec latent{
      .q_heads = 3,
      .q_dim = 24,
      .n_rot = 16,
      .layout = {.dtype = DType::f16, .block_tokens = 16, .kv_heads = 1, .head_dim = 48, .value_dim = 32}};
  const std::vector<KernelRegistry::AnyUse> uses = {
      best<EmbeddingRows>({DType::q8_0, 100, 64}),
      best<RmsNorm>({64, 1e-5f}),
      best<LayerNorm>({64, 1e-5f, true}),
      best<Matmul>({DType::q4_k, 64, 256}),
      best<Matmul>({DType::f16, 48, 64}),
      best<RopeAppend>(rope(DType::f16)),
      best<RopeAppend>(rope(DType::q8_0)),
      attention(heads(DType::f16), false),
      attention(heads(DType::f16), true),
      attention(heads(DType::q8_0), false),
      best<GatedActivation>({Activation::silu, 64, true}),
      best<ResidualAdd>({}),
      best<SampleTokens>({1000}),
      best<RouteTokens>(route),
      best<RouteRows>({.route = route, .hidden = 64}),
      best<ExpertMatmul>({DType::q8_0, 4, 64, 64, 2, false}),
      best<CausalConv>({.channels = 32, .taps = 3, .gates = true}),
      best<SsmScan>({.heads = 4, .head_dim = 16, .state_size = 16, .groups = 2}),
      best<GatedDeltaNet>({.key_heads = 2, .value_heads = 4, .key_dim = 16, .value_dim = 16}),
      best<OutputGate>({.heads = 4, .dim = 16, .gate = OutputGate::Gate::silu, .norm = true}),
      best<LatentAppend>(latent),
      best<HeadMatmul>({DType::q8_0, 3, 32, 32, 8}),
      best<CopyHeads>({24, 16}),
      best<GatherRows>({64})};
  run(uses, 3e6);
  EXPECT_EQ(operations_.size(), 20u);
  EXPECT_TRUE(unchecked_operations(uses).empty());
}

TEST_F(SmallCases, EveryFormatOfWeightsIsRight) {
  std::vector<KernelRegistry::AnyUse> uses;
  for (std::uint32_t id = 0; id < 64; ++id) {
    if (const auto type = dtype_from_id(id); type && info(*type).computes) {
      uses.push_back(best<Matmul>({*type, 64, 512}));
    }
  }
  EXPECT_GT(uses.size(), 10u);
  EXPECT_FALSE(run(uses, 1e5).empty());
}

TEST_F(SmallCases, TheListForNoModelCoversEveryOperationOnce) {
  const auto uses = uses_of_models(registry_, device_.info());
  std::set<std::string> operations;
  for (const KernelCase& one : cases_of(uses, registry_, device_.info(), {.host_work = 1.0})) {
    operations.insert(one.operation);
  }
  for (const char* operation :
       {"embedding", "rms_norm", "layer_norm", "matmul", "rope_append", "attention", "gated_activation", "residual_add",
        "sample", "route_tokens", "expert_matmul", "causal_conv", "ssm_scan", "gated_delta_net", "output_gate",
        "latent_append", "head_matmul", "copy_heads", "gather_rows"}) {
    EXPECT_TRUE(operations.contains(operation)) << operation;
  }
}

TEST_F(SmallCases, TheSmallestShapesOfAllKernelsComeFirst) {
  const std::vector<KernelRegistry::AnyUse> uses = {best<RmsNorm>({64, 1e-5f}), best<RmsNorm>({32, 1e-5f}),
                                                    best<LayerNorm>({64, 1e-5f, true}), best<RmsNorm>({64, 1e-5f})};
  const auto cases = cases_of(uses, registry_, device_.info(), {.limits = {.max_tokens = 3}});
  std::vector<std::string> order;
  for (const KernelCase& one : cases) {
    order.push_back(one.operation + " of " + one.spec.substr(4, 2) + ", " + one.shape);
  }
  EXPECT_THAT(order,
              testing::ElementsAre("rms_norm of 64, 1 token", "layer_norm of 64, 1 token", "rms_norm of 32, 1 token",
                                   "rms_norm of 64, 3 tokens", "layer_norm of 64, 3 tokens", "rms_norm of 32, 3 tokens"))
      << "the same use counts once";
}

/// A check that is cut short has tried large shapes, too.
TEST_F(SmallCases, TheLargestShapesComeSecond) {
  std::vector<int> tokens;
  for (const KernelCase& one :
       cases_of(std::vector<KernelRegistry::AnyUse>{best<RmsNorm>({64, 1e-5f})}, registry_, device_.info(), {})) {
    tokens.push_back(std::stoi(one.shape));
  }
  std::vector<int> rising = tokens;
  std::ranges::sort(rising);
  ASSERT_GE(rising.size(), 4u);
  EXPECT_EQ(tokens[0], rising[0]);
  EXPECT_EQ(tokens[1], rising.back());
  EXPECT_EQ(tokens[2], rising[1]);
  EXPECT_EQ(tokens[3], rising[rising.size() - 2]);
}

/// On the device that ROCMFORGE_TEST_DEVICE names, which may be an emulated GPU: arrays in its memory, work on its streams,
/// and the plain kernels of the device as oracle.
TEST(DeviceCases, TinyKernelsOfTheTestDeviceAreRight) {
  const test::TestDevice opened = test::open_test_device();
  if (opened.device == nullptr) {
    GTEST_SKIP() << opened.problem;
  }
  Device& device = *opened.device;
  ThreadPool pool(2);
  KernelRegistry registry;
  register_all_kernels(registry, &device);
  std::vector<KernelRegistry::AnyUse> uses;
  const auto add = [&]<class Op>(std::type_identity<Op>, const typename Op::Spec& spec) {
    uses.emplace_back(KernelUse<Op>{spec, registry.choose<Op>(spec, device.info()).kernel});
  };
  add(std::type_identity<RmsNorm>(), {64, 1e-5f});
  add(std::type_identity<ResidualAdd>(), {});
  add(std::type_identity<Matmul>(), {DType::f32, 16, 32});
  CheckBench bench(device, registry, pool);
  for (const KernelCase& one : cases_of(uses, registry, device.info(), {.limits = {.max_tokens = 1}})) {
    const CallResult result = one.run(bench);
    EXPECT_EQ(result.problem, "") << one.operation << " " << one.kernel << ", " << one.shape;
    EXPECT_GT(result.elements, 0);
    EXPECT_EQ(result.oracle, device.is_gpu() && one.operation == "matmul" ? "check" : "reference");
  }
}

}  // namespace
}  // namespace rocmforge
