#include "checks/cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>
#include <variant>

#include "checks/device_cases.h"
#include "checks/inputs.h"
#include "kernels/register_all.h"

namespace rocmforge {
namespace {

using test::DeviceCases;

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
    spec.most_rows = decode ? 1 : 0;
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
  const LatentExpand::Spec expand{
      .plain_dim = 24, .value_dim = 20, .key_weight = DType::f16, .value_weight = DType::q8_0, .layout = latent.layout};
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
      best<SelectiveScan>({.channels = 24, .state_size = 16}),
      best<GatedDeltaNet>({.key_heads = 2, .value_heads = 4, .key_dim = 16, .value_dim = 16}),
      best<OutputGate>({.heads = 4, .dim = 16, .gate = OutputGate::Gate::silu, .norm = true}),
      best<LatentAppend>(latent),
      best<HeadMatmul>({DType::q8_0, 3, 32, 32, 8}),
      best<LatentExpand>(expand),
      best<CopyHeads>({24, 16}),
      best<GatherRows>({64})};
  run(uses, 3e6);
  EXPECT_EQ(operations_.size(), 22u);
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
       {"embedding",      "rms_norm",    "layer_norm",    "matmul",        "rope_append", "attention",  "gated_activation",
        "residual_add",   "sample",      "route_tokens",  "expert_matmul", "causal_conv", "ssm_scan",   "gated_delta_net",
        "selective_scan", "output_gate", "latent_append", "latent_expand", "head_matmul", "copy_heads", "gather_rows"}) {
    EXPECT_TRUE(operations.contains(operation)) << operation;
  }
}

/// A GPU as the list of cases sees it; nothing runs.
DeviceInfo described_gpu(DeviceKind kind, const char* architecture) {
  DeviceInfo device;
  device.kind = kind;
  device.architecture = architecture;
  device.wave_size = 32;
  device.compute_units = 100;
  device.memory_bytes = std::int64_t{64} << 30;
  device.shared_memory_bytes = 64 << 10;
  return device;
}

constexpr CaseOptions gpu_options{.limits = {.max_tokens = 2048, .max_step_tokens = 40'000, .max_kv_len = 131'073},
                                  .each_code_once = true};

/// Three minutes are 150 ms a call. Plain kernels compute some 10^11 products a second on a large card.
TEST_F(SmallCases, TheListForAGpuIsShortAndNamesNothingTwice) {
  for (const DeviceInfo& device : {described_gpu(DeviceKind::cuda, "sm_90"), described_gpu(DeviceKind::hip, "gfx1100")}) {
    SCOPED_TRACE(device.architecture);
    const auto cases = cases_of(uses_of_models(registry_, device), registry_, device, gpu_options);
    std::set<std::string> names;
    double work = 0.0;
    for (const KernelCase& one : cases) {
      work += one.work;
      EXPECT_TRUE(names.insert(one.operation + one.spec + one.kernel + one.shape).second)
          << one.operation << " " << one.spec << ", " << one.shape;
    }
    EXPECT_LT(cases.size(), 1400u);
    EXPECT_GT(cases.size(), 800u);
    EXPECT_LT(work, 4e12);
  }
}

/// The longest calls are made once for a kernel; other numbers of rows and columns run the same code.
TEST_F(SmallCases, OneUseOfAKernelHasTheLongestCalls) {
  const DeviceInfo device = described_gpu(DeviceKind::cuda, "sm_90");
  const MatmulKernel* const kernel = registry_.choose<Matmul>({DType::q4_k, 4096, 4096}, device).kernel;
  const std::vector<KernelRegistry::AnyUse> uses = {KernelUse<Matmul>{{DType::q4_k, 4096, 4096}, kernel},
                                                    KernelUse<Matmul>{{DType::q5_k, 4096, 4096}, kernel},
                                                    KernelUse<Matmul>{{DType::q4_k, 2048, 4096}, kernel}};
  std::map<std::string, std::vector<int>> tokens;  // of plain calls, by spec
  for (const KernelCase& one : cases_of(uses, registry_, device, gpu_options)) {
    if (one.shape.ends_with("token") || one.shape.ends_with("tokens")) {
      tokens[one.spec].push_back(std::stoi(one.shape));
    }
  }
  ASSERT_EQ(tokens.size(), 3u);
  for (auto& [spec, counts] : tokens) {
    std::ranges::sort(counts);
  }
  EXPECT_THAT(tokens[to_string(Matmul::Spec{DType::q4_k, 4096, 4096})], testing::ElementsAre(1, 3, 8, 17, 64, 129, 2048));
  EXPECT_THAT(tokens[to_string(Matmul::Spec{DType::q5_k, 4096, 4096})], testing::ElementsAre(1, 3, 8, 17, 64, 129, 512))
      << "32 tiles of 128 rows times 4 of 128 tokens are more than 100 units";
  EXPECT_THAT(tokens[to_string(Matmul::Spec{DType::q4_k, 2048, 4096})], testing::ElementsAre(1, 17, 896));
}

TEST(CheckInputs, BlocksThatAreOnlyReadMayStandInSeveralPlaces) {
  const std::vector<SequenceShape> sequences = {{100, 1}, {50, 50}};
  Random random(1);
  const PagedStep step = paged_step(sequences, 16, random, 3);
  EXPECT_EQ(step.num_blocks, 3);
  const std::set<std::int32_t> blocks(step.plan.block_tables.begin(), step.plan.block_tables.end());
  EXPECT_THAT(blocks, testing::ElementsAre(-1, 0, 1, 2)) << "-1 behind the shorter table";
  EXPECT_EQ(paged_step(sequences, 16, random).num_blocks, 7 + 4);
}

TEST(CheckInputs, PooledNumbersHaveTheirDistributionAndNoEqualRows) {
  PooledRandom random(2);
  constexpr std::int64_t width = 1000;
  const std::vector<float> values = random.normals(3 * width, 2.0f);
  double squares = 0.0;
  for (const float value : values) {
    squares += double{value} * double{value};
  }
  EXPECT_NEAR(squares / static_cast<double>(values.size()), 4.0, 0.5);
  EXPECT_FALSE(std::equal(values.begin(), values.begin() + width, values.begin() + width));
  EXPECT_NE(random.normals(width), random.normals(width)) << "two arrays of a call";
  for (const float value : random.uniforms(width, 0.5f, 1.5f)) {
    ASSERT_GE(value, 0.5f);
    ASSERT_LE(value, 1.5f);
  }
  const auto stored = random_weight(DType::f16, 4, width, random);
  EXPECT_EQ(stored.size(), 4 * row_bytes(DType::f16, width));
  EXPECT_FALSE(std::equal(stored.begin(), stored.begin() + 2 * width, stored.begin() + 2 * width));
}

/// What a kernel fuses into its call is part of the list.
TEST_F(SmallCases, FusedOperationsAreInTheListOfAGpu) {
  const auto shapes_with = [&](const DeviceInfo& device, std::string_view operation, std::string_view part) {
    std::size_t count = 0;
    for (const KernelCase& one : cases_of(uses_of_models(registry_, device), registry_, device, gpu_options)) {
      count += one.operation == operation && one.shape.find(part) != std::string::npos ? 1 : 0;
    }
    return count;
  };
  const DeviceInfo nvidia = described_gpu(DeviceKind::cuda, "sm_90");
  const DeviceInfo amd = described_gpu(DeviceKind::hip, "gfx1100");
  EXPECT_GT(shapes_with(nvidia, "matmul", "norm before"), 0u);
  EXPECT_GT(shapes_with(nvidia, "matmul", "added"), 0u);
  EXPECT_GT(shapes_with(nvidia, "rms_norm", "added"), 0u);
  EXPECT_GT(shapes_with(amd, "attention", "append, then"), 0u);
}

/// On a GPU each operation of the list is compared with the device's own plain kernel.
TEST_F(SmallCases, EveryOperationOfAGpuHasAPlainKernel) {
  for (const DeviceInfo& device : {described_gpu(DeviceKind::cuda, "sm_90"), described_gpu(DeviceKind::hip, "gfx1100")}) {
    for (const KernelRegistry::AnyUse& any : uses_of_models(registry_, device)) {
      std::visit(
          [&]<class Op>(const KernelUse<Op>& use) {
            const auto& kernels = registry_.all<Op>();
            EXPECT_TRUE(std::ranges::any_of(kernels,
                                            [&](const auto& kernel) {
                                              return kernel->device() == device.kind &&
                                                     kernel->priority() == KernelPriority::check &&
                                                     kernel->supports(use.spec, device).ok;
                                            }))
                << Op::name << " " << to_string(use.spec);
          },
          any);
    }
  }
}

TEST_F(SmallCases, TheSmallestShapesOfAllKernelsComeFirst) {
  const std::vector<KernelRegistry::AnyUse> uses = {best<GatherRows>({64}), best<GatherRows>({32}),
                                                    best<LayerNorm>({64, 1e-5f, true}), best<GatherRows>({64})};
  const auto cases = cases_of(uses, registry_, device_.info(), {.limits = {.max_tokens = 3}});
  std::vector<std::string> order;
  for (const KernelCase& one : cases) {
    order.push_back(one.operation + " of " + one.spec.substr(4, 2) + ", " + one.shape);
  }
  EXPECT_THAT(order, testing::ElementsAre("gather_rows of 64, 1 token", "layer_norm of 64, 1 token",
                                          "gather_rows of 32, 1 token", "gather_rows of 64, 3 tokens",
                                          "layer_norm of 64, 3 tokens", "gather_rows of 32, 3 tokens"))
      << "the same use counts once";
}

/// A check that is cut short has tried large shapes, too.
TEST_F(SmallCases, TheLargestShapesComeSecond) {
  std::vector<int> tokens;
  for (const KernelCase& one :
       cases_of(std::vector<KernelRegistry::AnyUse>{best<GatherRows>({64})}, registry_, device_.info(), {})) {
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

TEST_F(DeviceCases, TinyKernelsOfTheTestDeviceAreRight) {
  std::vector<KernelRegistry::AnyUse> uses;
  const auto add = [&]<class Op>(std::type_identity<Op>, const typename Op::Spec& spec) {
    uses.emplace_back(KernelUse<Op>{spec, registry_.choose<Op>(spec, device().info()).kernel});
  };
  const KvLayout pages{.dtype = DType::f16, .block_tokens = 16, .kv_heads = 2, .head_dim = 64};
  add(std::type_identity<RmsNorm>(), {64, 1e-5f});
  add(std::type_identity<ResidualAdd>(), {});
  add(std::type_identity<Matmul>(), {DType::f32, 16, 32});
  add(std::type_identity<GatherRows>(), {64});
  add(std::type_identity<SampleTokens>(), {300});
  add(std::type_identity<RouteTokens>(), {.experts = 16, .used = 4, .bias = true, .normalise = true});
  add(std::type_identity<RopeAppend>(),
      {.kind = RopeKind::half, .q_heads = 4, .head_dim = 64, .n_rot = 64, .head_norm = true, .layout = pages});
  add(std::type_identity<LatentExpand>(),
      {.plain_dim = 24,
       .value_dim = 16,
       .key_weight = DType::f16,
       .value_weight = DType::q8_0,
       .layout = {.dtype = DType::f16, .block_tokens = 16, .kv_heads = 1, .head_dim = 48, .value_dim = 32}});
  CheckBench bench(device(), registry_, pool_);
  const CaseOptions options{.limits = {.max_tokens = 1, .max_step_tokens = 17, .max_kv_len = 100}};
  for (const KernelCase& one : cases_of(uses, registry_, device().info(), options)) {
    const CallResult result = one.run(bench);
    EXPECT_EQ(result.problem, "") << one.operation << " " << one.kernel << ", " << one.shape;
    EXPECT_GT(result.elements, 0);
    EXPECT_EQ(result.oracle, device().is_gpu() ? "check" : "reference");
  }
}

/// A decode step that appends its own K and V, where the device has a kernel for that.
TEST_F(DeviceCases, TinyAppendsInsideAttentionAreRight) {
  Attention::Spec spec = heads(DType::f16);
  spec.most_rows = 1;
  CheckBench bench(device(), registry_, pool_);
  int appends = 0;
  for (const auto& kernel : registry_.all<Attention>()) {
    if (kernel->device() != device().info().kind || is_oracle(kernel->priority()) ||
        !kernel->supports(spec, device().info()).ok) {
      continue;
    }
    const KernelUse<Attention> use{spec, kernel.get(), kernel->layout(spec)};
    const CaseOptions options{.limits = {.max_step_tokens = 17, .max_kv_len = 100}};
    for (const KernelCase& one : cases_of({use}, registry_, device().info(), options)) {
      if (one.shape.starts_with("append")) {
        EXPECT_EQ(one.run(bench).problem, "") << one.kernel;
        ++appends;
      }
    }
  }
  if (appends == 0) {
    GTEST_SKIP() << "no kernel of this device takes an append";
  }
}

}  // namespace
}  // namespace rocmforge
