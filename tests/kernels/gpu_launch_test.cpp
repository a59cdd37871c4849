#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/math.h"
#include "device/fake_driver.h"
#include "kernels/register_all.h"
#include "temporary_folder.h"

// The host side of the GPU kernels, tested without a GPU: launch shapes, refusals, and no access to device memory.

namespace rocmforge {
namespace {

class GpuLaunch : public testing::Test {
 protected:
  GpuLaunch() {
    for (const char* object : {"attention_steps", "elementwise", "embedding", "overwrite", "ranks", "rope", "streams"}) {
      folder_.write("gfx1100/" + std::string(object) + ".hsaco",
                    "\x7f"
                    "ELF code");
    }
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
    register_all_kernels(registry_);
  }

  /// The shapes that one call launches.
  template <class Op>
  std::vector<LaunchShape> launch(const typename Op::Spec& spec, const typename Op::Args& args) {
    log_->shapes.clear();
    ExecutionContext context{.stream = &device_->stream()};
    registry_.choose<Op>(spec, device_->info(), "gpu").kernel->run(spec, args, context);
    return log_->shapes;
  }

  /// One launch that every device takes: NVIDIA's grids end at 65,535 in the second dimension, AMD counts the work-items of
  /// a dimension in 32 bits.
  template <class Op>
  void expect_fits(const typename Op::Spec& spec, const typename Op::Args& args) {
    SCOPED_TRACE(Op::name);
    const std::vector<LaunchShape> shapes = launch<Op>(spec, args);
    ASSERT_EQ(shapes.size(), 1u);
    const LaunchShape& shape = shapes[0];
    EXPECT_LT(std::uint64_t{shape.grid[0]} * shape.block[0], std::uint64_t{1} << 32);
    EXPECT_GE(shape.grid[0], 1u);
    EXPECT_GE(shape.grid[1], 1u);
    EXPECT_LE(shape.grid[1], 65535u);
    EXPECT_EQ(shape.grid[2], 1u);
    EXPECT_LE(shape.block[0], 1024u);
    EXPECT_EQ(shape.block[0] % 64, 0u);  // whole waves of either size
    EXPECT_LE(shape.shared_bytes, 48u << 10);
  }

  // Addresses of a device: aligned, and not to be read by the host.
  static float* floats(int i) { return reinterpret_cast<float*>(std::uintptr_t{0x10000} * static_cast<unsigned>(i + 1)); }
  static std::int32_t* ids() { return reinterpret_cast<std::int32_t*>(0x1000); }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
  KernelRegistry registry_;
};

TEST_F(GpuLaunch, HugeSizesFitTheGrid) {
  constexpr std::int64_t huge = std::int64_t{1} << 36;
  expect_fits<EmbeddingRows>({DType::q4_k, 151936, 8192}, {ids(), huge, floats(0), 1.0f, floats(1)});
  expect_fits<RmsNorm>({4096}, {floats(0), huge, floats(1), floats(2)});
  expect_fits<GatedActivation>({Activation::silu, 14336}, {floats(0), floats(1), huge, 14336, floats(2)});
  expect_fits<ResidualAdd>({}, {floats(0), floats(1), huge, floats(2)});
  expect_fits<Scale>({}, {floats(0), huge, 2.0f});
  const ScoreShape shape{.batch = 4096, .heads = 64, .q_len = 65536, .kv_len = 65536};
  expect_fits<CausalMask>({}, {.scores = floats(0), .shape = shape});
  expect_fits<RowSoftmax>({}, {.scores = floats(0), .shape = shape});
  expect_fits<QueryKey>({128}, {.q = floats(0), .k = floats(1), .shape = shape, .scores = floats(2)});
  expect_fits<WeightsValue>({128}, {.weights = floats(0), .v = floats(1), .shape = shape, .out = floats(2)});
  expect_fits<ReplicateKv>(
      {64, {.dtype = DType::f32, .kv_heads = 8, .head_dim = 128}},
      {.dense = {floats(0), floats(1), 0, 1024, 128}, .shape = shape, .k_out = floats(2), .v_out = floats(3)});
  expect_fits<Dequantize>({DType::q6_k}, {floats(0), huge, floats(1)});
  expect_fits<DequantizeRmsNorm>({DType::q8_0, 4096}, {floats(0), huge, floats(1), floats(2)});
  expect_fits<GatherRows>({4096}, {floats(0), ids(), huge, floats(1)});
  expect_fits<OverwriteRows>({4096}, {floats(0), 4096, ids(), ids(), huge, floats(1)});
  expect_fits<MixStreams>({2048, MixStreams::Inputs::and_row},
                          {.x = floats(0), .row = floats(1), .base = floats(2), .tokens = huge, .first = floats(3)});
  expect_fits<CutRows>({16384, 1.0f}, {floats(0), huge, 32768});
  expect_fits<AllReduce>({2}, {{floats(0), floats(1)}, huge, floats(2)});
}

TEST_F(GpuLaunch, OneRotationOfAllHeads) {
  RopeAppend::Spec spec;
  spec.q_heads = 32;
  spec.head_dim = 128;
  spec.n_rot = 128;
  spec.layout.kv_heads = 8;
  spec.layout.head_dim = 128;
  RopeAppend::Args args;
  args.q = floats(0);
  args.k = floats(1);
  args.v = floats(2);
  args.stride = 6144;
  args.inverse_frequency = floats(3);
  args.cache = {floats(4), 100'000};
  args.batch = {.num_sequences = 1,
                .num_tokens = 1 << 20,
                .query_offsets = ids(),
                .kv_lengths = ids(),
                .block_tables = ids(),
                .max_blocks = 1 << 15,
                .positions = ids(),
                .sequence_of = ids(),
                .max_q_len = 1 << 20,
                .max_kv_len = 1 << 20};
  expect_fits<RopeAppend>(spec, args);
}

TEST_F(GpuLaunch, NothingToDoLaunchesNothing) {
  EXPECT_TRUE(launch<RmsNorm>({64}, {floats(0), 0, floats(1), floats(2)}).empty());
  EXPECT_TRUE(launch<EmbeddingRows>({DType::f16, 10, 64}, {ids(), 0, floats(0), 1.0f, floats(1)}).empty());
  EXPECT_TRUE(launch<Scale>({}, {floats(0), 0, 2.0f}).empty());
  const ScoreShape no_rows{.batch = 4, .q_len = 0, .kv_len = 16};
  const ScoreShape no_keys{.batch = 1, .q_len = 4, .kv_len = 0};
  EXPECT_TRUE(launch<CausalMask>({}, {.scores = floats(0), .shape = no_rows}).empty());
  EXPECT_TRUE(launch<QueryKey>({64}, {.q = floats(0), .k = floats(1), .shape = no_keys, .scores = floats(2)}).empty());
  EXPECT_TRUE(launch<GatherRows>({64}, {floats(0), ids(), 0, floats(1)}).empty());
  EXPECT_TRUE(launch<CutRows>({64, 1.0f}, {floats(0), 0, 64}).empty());
  EXPECT_TRUE(launch<MixStreams>({64}, {.x = floats(0), .base = floats(1), .tokens = 0, .first = floats(2)}).empty());
  EXPECT_TRUE(launch<OverwriteRows>({64}, {floats(0), 64, ids(), ids(), 0, floats(1)}).empty());
}

/// Ranks whose launches or work-groups differ would wait for ever: they depend on the widest part alone.
TEST_F(GpuLaunch, ExchangesOfRanksAreTheSameLaunchesOnAll) {
  const auto shapes = [this](std::int32_t rank, std::int64_t rows, std::int64_t first, std::int64_t second) {
    RankExchange::Args args{.kind = RankExchange::Kind::gather,
                            .rank = rank,
                            .part = floats(0),
                            .rows = rows,
                            .widths = {first, second},
                            .out = rank == 0 ? floats(1) : nullptr};
    args.mail.boxes = {floats(2), floats(3)};
    args.mail.rounds = reinterpret_cast<std::uint32_t*>(floats(4));
    args.mail.given_up = args.mail.rounds + 1;
    return launch<RankExchange>({2}, args);
  };
  EXPECT_EQ(shapes(0, 1, 64, 0), shapes(1, 1, 64, 0));
  EXPECT_EQ(shapes(1, 1, 0, 0).size(), 1u) << "the other rank waits also where there is nothing";
  EXPECT_EQ(shapes(0, 1, 4096, 4096).at(0).grid[0], 4u);
  const auto logits = shapes(1, 64, 64128, 64128);
  EXPECT_EQ(logits, shapes(0, 64, 64128, 64128));
  EXPECT_EQ(std::ssize(logits), divide_up(std::int64_t{64} * 64128, RankExchange::elements_of_launch));
  EXPECT_EQ(logits[0].grid[0], static_cast<std::uint32_t>(RankExchange::groups));
}

TEST_F(GpuLaunch, ANormsThreadsDependOnItsWidthAlone) {
  const auto one = launch<RmsNorm>({4096}, {floats(0), 1, floats(1), floats(2)});
  const auto many = launch<RmsNorm>({4096}, {floats(0), 5000, floats(1), floats(2)});
  EXPECT_EQ(one.at(0).block, many.at(0).block);
}

TEST_F(GpuLaunch, ComposedAttentionIsTheStepsThatTheRegistryOffers) {
  const Attention::Spec spec{.q_heads = 8, .kv_heads = 2, .head_dim = 20, .kv_dtype = DType::f32, .soft_cap = 30.0f};
  const auto* composed = registry_.choose<Attention>(spec, device_->info(), "composed").kernel;
  const std::int64_t width = 2 * 20;
  const RaggedBatch batch{
      .num_sequences = 3, .num_tokens = 50, .query_offsets = ids(), .kv_lengths = ids(), .max_q_len = 40, .max_kv_len = 61};
  const DenseKv dense{floats(1), floats(2), 61 * width, width, 20};
  ExecutionContext context{.stream = &device_->stream()};
  composed->run(spec, composed->layout(spec),
                {.q = floats(0), .q_stride = 160, .dense = dense, .batch = batch, .out = floats(3), .workspace = floats(4)},
                context);
  const auto of_attention = std::exchange(log_->arguments, {});

  const ScoreShape shape{.batch = 3, .heads = 8, .q_len = 40, .kv_len = 64, .query_offsets = ids(), .kv_lengths = ids()};
  float* k = floats(4);
  float* v = k + 3 * 64 * 8 * 20;
  float* scores = v + 3 * 64 * 8 * 20;
  launch<ReplicateKv>({8, composed->layout(spec)}, {.dense = dense, .shape = shape, .k_out = k, .v_out = v});
  launch<QueryKey>({20}, {.q = floats(0), .k = k, .shape = shape, .scale = 1.0f / std::sqrt(20.0f), .scores = scores});
  launch<Scale>({}, {.x = scores, .count = shape.count(), .soft_cap = 30.0f});
  launch<CausalMask>({}, {.scores = scores, .shape = shape});
  launch<RowSoftmax>({}, {.scores = scores, .shape = shape});
  launch<WeightsValue>({20}, {.weights = scores, .v = v, .shape = shape, .out = floats(3)});
  const auto& of_steps = log_->arguments;
  ASSERT_EQ(of_attention.size(), of_steps.size());
  for (std::size_t i = 0; i < of_steps.size(); ++i) {
    ASSERT_EQ(of_attention[i].size(), of_steps[i].size()) << "launch " << i;
    const bool has_padding = i < 2;  // the parameters of replicate_kv and query_key
    EXPECT_TRUE(has_padding || of_attention[i] == of_steps[i]) << "launch " << i;
  }
}

TEST_F(GpuLaunch, MisalignedRowsAreRefusedByName) {
  const auto* odd = reinterpret_cast<const std::byte*>(floats(0)) + 2;
  try {
    launch<Dequantize>({DType::q8_0}, {odd, 64, floats(1)});
    FAIL() << "not refused";
  } catch (const LogicError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("dequantize: rows is not 16-byte aligned"));
  }
}

}  // namespace
}  // namespace rocmforge
