#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "device/fake_driver.h"
#include "kernels/experts/amd/experts_args.h"
#include "kernels/experts/kernels.h"
#include "kernels/matmul/amd/matvec_args.h"
#include "kernels/matmul/amd/product_groups.h"
#include "kernels/matmul/kernels.h"
#include "kernels/rows/kernels.h"
#include "temporary_folder.h"

// Which launches the products of a decode step make on AMD; tested without a GPU.

namespace rocmforge {
namespace {

using amd::MatvecChainArgs;
using testing::ElementsAre;

constexpr std::int32_t unused = std::numeric_limits<std::int32_t>::max();  ///< a call that a launch has not

class AmdLaunch : public testing::Test {
 protected:
  AmdLaunch() {
    for (const std::string object : {"elementwise", "matvec_packed", "experts_packed", "route_rows"}) {
      folder_.write("gfx1100/" + object + ".hsaco",
                    "\x7f"
                    "ELF code");
    }
    device_ =
        std::make_unique<Device>(std::make_unique<FakeDriver>(log_, "gfx1100"), KernelLibrary::from_folder(folder_.path()));
    device_->stream().allow_merging(true);
  }

  /// A product of `rows` rows, of one token unless said otherwise.
  void product(DType type, std::int64_t rows, std::int64_t tokens = 1) {
    const MatmulOutput output{.dtype = type, .weight = place(0), .n = rows, .out = place(1), .stride = rows};
    ExecutionContext context{.stream = &device_->stream()};
    kernel_->run({.x = place(2), .tokens = tokens, .k = 512, .x_stride = 512, .outputs = {&output, 1}}, context);
  }

  /// Gate and up, or down, of three of eight experts.
  void experts(bool down, std::int64_t tokens = 1) {
    const ExpertWeight weight{DType::q4_k, place(0), 512, 1 << 20};
    const std::array weights{weight, weight};
    ExpertMatmul::Args args{};
    args.x = place(1);
    args.tokens = tokens;
    args.k = 512;
    args.used = 3;
    args.experts = 8;
    args.ids = reinterpret_cast<const std::int32_t*>(place(3));
    args.weights = std::span(weights).first(down ? 1 : 2);
    args.shares = down ? place(4) : nullptr;
    args.out = place(2);
    ExecutionContext context{.stream = &device_->stream()};
    experts_->run(args, context);
  }

  /// The router of `of` experts, of which three are used.
  void router(std::int64_t tokens = 1, std::int32_t of = 8) {
    const RouteRows::Spec spec{.route = {.experts = of, .used = 3}, .hidden = 512};
    RouteRows::Args args{.x = place(1), .norm = place(5), .router = place(6), .tokens = tokens, .normed = place(7)};
    args.ids = reinterpret_cast<std::int32_t*>(place(3));
    args.weights = place(4);
    args.workspace = place(8);
    args.state = place(9);
    ExecutionContext context{.stream = &device_->stream()};
    router_->run(spec, args, context);
  }

  /// A norm of `rows` rows whose result is added to a residual stream.
  void norm(std::int64_t dim = 512, std::int64_t rows = 1, const float* x = place(2)) {
    ExecutionContext context{.stream = &device_->stream()};
    norm_->run({.dim = dim}, {.x = x, .rows = rows, .weight = place(3), .out = place(1), .residual = place(1)}, context);
  }

  [[nodiscard]] amd::ExpertChainArgs expert_chain(std::size_t launch) const {
    amd::ExpertChainArgs args{};
    EXPECT_EQ(log_->arguments.at(launch).size(), sizeof args);
    std::memcpy(&args, log_->arguments[launch].data(), sizeof args);
    return args;
  }

  [[nodiscard]] MatvecChainArgs chain(std::size_t launch) const {
    MatvecChainArgs args{};
    EXPECT_EQ(log_->arguments.at(launch).size(), sizeof args);
    std::memcpy(&args, log_->arguments[launch].data(), sizeof args);
    return args;
  }

  static float* place(int i) { return reinterpret_cast<float*>(std::uintptr_t{0x100000} * static_cast<unsigned>(i + 1)); }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
  std::unique_ptr<MatmulKernel> kernel_ = make_amd_matmul();
  std::unique_ptr<ExpertMatmulKernel> experts_ = make_amd_expert_matmul();
  std::unique_ptr<RouteRowsKernel> router_ = make_amd_route_rows();
  std::unique_ptr<OpKernel<RmsNorm>> norm_ = make_gpu_rms_norm(DeviceKind::hip);
};

/// Of one token alone: several tokens have one work-group a unit.
TEST_F(AmdLaunch, ProductsOfOneTokenHaveTheWorkGroupsThatWereChosen) {
  device_->stream().allow_merging(false);
  const auto groups = [&](double a_unit, std::int64_t tokens) {
    amd::set_product_groups(*device_, a_unit);
    product(DType::q4_k, 16384, tokens);
    return static_cast<double>(log_->shapes.back().grid[0]) / device_->info().compute_units;
  };
  EXPECT_EQ(amd::product_groups(*device_), 1.0);
  EXPECT_EQ(groups(1.0, 1), 1.0);
  EXPECT_EQ(groups(2.0, 1), 2.0);
  EXPECT_EQ(groups(2.0, 3), 1.0);
  EXPECT_THROW(amd::set_product_groups(*device_, 3.0), LogicError);
}

TEST_F(AmdLaunch, ProductsInARowAreOneLaunch) {
  product(DType::q4_k, 64);
  product(DType::q6_k, 256);
  product(DType::q4_k, 8);
  EXPECT_TRUE(log_->kernels.empty()) << "the last one may have a successor";
  device_->stream().synchronize();
  ASSERT_THAT(log_->kernels, ElementsAre("matvec_chain"));
  const MatvecChainArgs args = chain(0);
  EXPECT_EQ(args.order.count, 3);
  // The fake device has one unit, so that each call has one work-group.
  EXPECT_THAT(args.order.ends, ElementsAre(1, 2, 3, unused, unused, unused));
  EXPECT_EQ(log_->shapes[0].grid[0], 3);
  EXPECT_EQ(args.calls[1].parts[0].n, 256);
  EXPECT_EQ(args.order.counters, device_->stream().counters());
}

TEST_F(AmdLaunch, NormsBehindProductsJoinThem) {
  product(DType::q4_0, 512);
  norm();
  product(DType::q4_0, 64);
  product(DType::q4_0, 512);
  norm(2560);
  product(DType::q4_0, 64);
  device_->stream().synchronize();
  ASSERT_THAT(log_->kernels, ElementsAre("matvec_chain_halves"));
  const MatvecChainArgs args = chain(0);
  EXPECT_EQ(args.order.count, 6);
  EXPECT_THAT(args.order.ends, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(args.norm_calls, 0b010010u);
  EXPECT_EQ(args.norms[0].norm.dim, 512);
  EXPECT_EQ(args.norms[0].norm.residual, place(1));
  EXPECT_EQ(args.norms[0].threads, 128);
  EXPECT_EQ(args.norms[1].threads, 1024);
  EXPECT_EQ(args.calls[2].parts[0].n, 64);
  EXPECT_EQ(args.calls[3].parts[0].n, 512);
}

/// A launch has two norms at most; what they read four at a time lies so; and none begins a launch.
TEST_F(AmdLaunch, OtherNormsAreKernelsOfTheirOwn) {
  norm();
  product(DType::q4_0, 512);
  norm(512, 2);
  product(DType::q4_0, 512);
  norm(510);
  product(DType::q4_0, 512);
  norm(512, 1, place(2) + 1);
  product(DType::q4_0, 512);
  norm();
  norm();
  norm();
  device_->stream().synchronize();
  EXPECT_THAT(log_->kernels, ElementsAre("rms_norm", "matvec_packed_1_halves", "rms_norm", "matvec_packed_1_halves", "rms_norm",
                                         "matvec_packed_1_halves", "rms_norm", "matvec_chain_halves", "rms_norm"));
}

TEST_F(AmdLaunch, ANormBehindExpertsIsAKernelOfItsOwn) {
  experts(false);
  experts(true);
  norm();
  device_->stream().synchronize();
  EXPECT_THAT(log_->kernels, ElementsAre("expert_chain", "rms_norm"));
}

TEST_F(AmdLaunch, AProductAloneIsAKernelOfItsOwn) {
  product(DType::q4_k, 64);
  device_->stream().synchronize();
  EXPECT_THAT(log_->kernels, ElementsAre("matvec_packed_1"));
}

TEST_F(AmdLaunch, AFullLaunchIsFollowedByAnother) {
  for (int i = 0; i < amd::most_chained + 2; ++i) {
    product(DType::q4_0, 64);
  }
  device_->stream().synchronize();
  ASSERT_THAT(log_->kernels, ElementsAre("matvec_chain_halves", "matvec_chain_halves"));
  EXPECT_EQ(chain(0).order.count, amd::most_chained);
  EXPECT_EQ(chain(1).order.count, 2);
}

TEST_F(AmdLaunch, KernelsOfOtherKindsDoNotJoin) {
  product(DType::q4_0, 64);
  product(DType::q4_k, 64);
  product(DType::q4_k, 64, 2);
  product(DType::q4_k, 64);
  device_->stream().synchronize();
  EXPECT_THAT(log_->kernels, ElementsAre("matvec_packed_1_halves", "matvec_packed_1", "matvec_packed_8", "matvec_packed_1"));
}

TEST_F(AmdLaunch, ExpertsAndTheProductBehindThemAreOneLaunch) {
  experts(false);
  experts(true);
  product(DType::q4_0, 64);
  product(DType::q4_0, 128);
  device_->stream().synchronize();
  ASSERT_THAT(log_->kernels, ElementsAre("expert_chain_halves", "matvec_packed_1_halves"));
  const amd::ExpertChainArgs args = expert_chain(0);
  EXPECT_EQ(args.first, amd::ExpertCall::gate_up);
  EXPECT_EQ(args.order.count, 3);
  EXPECT_THAT(args.order.ends, ElementsAre(1, 2, 3, unused, unused, unused));
  EXPECT_EQ(args.order.counters, device_->stream().counters());
  EXPECT_EQ(args.gate_up.parts, 2);
  EXPECT_EQ(args.down.parts, 3);
  EXPECT_EQ(args.products[1].parts[0].n, 64);
}

TEST_F(AmdLaunch, ALayerOfExpertsBehindItsAttentionIsOneLaunch) {
  product(DType::q4_k, 512);
  router(1, 128);
  experts(false);
  experts(true);
  product(DType::q4_k, 64);
  product(DType::q4_k, 128);
  device_->stream().synchronize();
  ASSERT_THAT(log_->kernels, ElementsAre("expert_chain", "matvec_packed_1"));
  const amd::ExpertChainArgs args = expert_chain(0);
  EXPECT_EQ(args.first, amd::ExpertCall::output);
  EXPECT_EQ(args.order.count, 5);
  // Four logits of the router a work-group.
  EXPECT_THAT(args.order.ends, ElementsAre(1, 33, 34, 35, 36, unused));
  EXPECT_EQ(args.products[0].parts[0].n, 512);
  EXPECT_EQ(args.products[1].parts[0].n, 64);
  EXPECT_EQ(args.route.normed_quads, 4);
  EXPECT_GE(log_->shapes[0].shared_bytes, static_cast<std::uint32_t>(amd::chained_route_bytes));
}

/// A router alone is the portable kernel; several products before it, and one of another kind behind it, are other launches.
TEST_F(AmdLaunch, ARouterJoinsOneProductAlone) {
  router();
  router(2);
  experts(false, 2);
  product(DType::q4_k, 64);
  product(DType::q4_k, 64);
  router();
  product(DType::q4_0, 64);
  router();
  experts(false);
  experts(true);
  product(DType::q4_k, 64);
  device_->stream().synchronize();
  EXPECT_THAT(log_->kernels, ElementsAre("route_rows", "route_rows", "expert_packed_gate_up", "matvec_chain", "route_rows",
                                         "expert_chain_halves", "matvec_packed_1"));
  EXPECT_EQ(log_->shapes[0].block[0], 256u);
  EXPECT_EQ(expert_chain(5).order.count, 4);
}

TEST_F(AmdLaunch, ExpertsJoinInTheirOrderAlone) {
  product(DType::q4_k, 64);
  experts(true);
  experts(false);
  product(DType::q4_k, 64);
  experts(false);
  experts(true);
  experts(true);
  experts(false, 2);
  experts(true, 2);
  device_->stream().synchronize();
  EXPECT_THAT(log_->kernels,
              ElementsAre("matvec_packed_1", "expert_packed_down", "expert_packed_gate_up", "matvec_packed_1",
                          "expert_chain", "expert_packed_down", "expert_packed_gate_up", "expert_packed_down"));
}

/// On CDNA the end of a call in a chain takes longer than a launch.
TEST_F(AmdLaunch, WavesOf64TakeALaunchForEachProduct) {
  const auto log = std::make_shared<FakeDriver::Log>();
  const auto cdna = std::make_unique<Device>(std::make_unique<FakeDriver>(log, "gfx1100", false, 64),
                                             KernelLibrary::from_folder(folder_.path()));
  cdna->stream().allow_merging(true);
  const MatmulOutput output{.dtype = DType::q4_k, .weight = place(0), .n = 8, .out = place(1), .stride = 8};
  ExecutionContext context{.stream = &cdna->stream()};
  kernel_->run({.x = place(2), .tokens = 1, .k = 512, .x_stride = 512, .outputs = {&output, 1}}, context);
  EXPECT_THAT(log->kernels, ElementsAre("matvec_packed_1"));
}

TEST_F(AmdLaunch, EveryProductIsLaunchedAtOnceUnlessLaunchesMayBeMerged) {
  device_->stream().allow_merging(false);
  product(DType::q4_k, 64);
  product(DType::q4_k, 64);
  EXPECT_THAT(log_->kernels, ElementsAre("matvec_packed_1", "matvec_packed_1"));
}

TEST_F(AmdLaunch, StreamsOfOthersHoldNothingBack) {
  Stream lent(*device_, StreamHandle{});
  lent.allow_merging(true);
  const MatmulOutput output{.dtype = DType::q4_k, .weight = place(0), .n = 8, .out = place(1), .stride = 8};
  ExecutionContext context{.stream = &lent};
  kernel_->run({.x = place(2), .tokens = 1, .k = 512, .x_stride = 512, .outputs = {&output, 1}}, context);
  EXPECT_THAT(log_->kernels, ElementsAre("matvec_packed_1"));
}

/// Whatever the host does next with the stream or the memory, the product comes before it.
TEST_F(AmdLaunch, WhatIsHeldComesBeforeAnythingElse) {
  Stream& stream = device_->stream();
  Event event(*device_);
  std::array<std::byte, 16> host{};
  DeviceBuffer buffer = device_->allocate(64, "a test");
  const std::vector<std::function<void()>> nexts{
      [&] { stream.copy_to_device(buffer.data(), host.data(), 16); },
      [&] { stream.copy_to_host(host.data(), buffer.data(), 16); },
      [&] { stream.copy_on_device(buffer.data(), buffer.data() + 16, 16); },
      [&] { stream.fill(buffer.data(), 0, 16); },
      [&] { stream.record(event); },
      [&] { stream.wait(event); },
      [&] { stream.synchronize(); },
      [&] { (void)stream.handle(); },
      [&] { (void)stream.capture([] {}); },
      [&] { device_->download(host.data(), buffer.data(), 16); },
      [&] { buffer = {}; },
  };
  for (std::size_t i = 0; i < nexts.size(); ++i) {
    log_->kernels.clear();
    log_->calls.clear();
    product(DType::q4_k, 64);
    nexts[i]();
    EXPECT_EQ(log_->kernels.size(), 1) << i;
    EXPECT_TRUE(log_->calls.empty() || log_->calls.front() == "launch") << i << ": " << log_->calls.front();
  }
}

TEST_F(AmdLaunch, ARecordingTakesWhatIsHeldInItAndDropsItWhenItFails) {
  Stream& stream = device_->stream();
  log_->calls.clear();
  const Graph graph = stream.capture([&] { product(DType::q4_k, 64); });
  EXPECT_THAT(log_->calls, ElementsAre("begin_capture", "launch", "end_capture"));
  log_->kernels.clear();
  EXPECT_ANY_THROW((void)stream.capture([&] {
    product(DType::q4_k, 64);
    throw Error("no room");
  }));
  stream.synchronize();
  EXPECT_TRUE(log_->kernels.empty());
}

}  // namespace
}  // namespace rocmforge
