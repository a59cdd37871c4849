#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/fake_driver.h"
#include "kernels/experts/hopper/experts_args.h"
#include "kernels/experts/kernels.h"
#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/launch/kernel_table.h"
#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "kernels/matmul/kernels.h"
#include "temporary_folder.h"

// What Hopper's kernels are launched with, where their protocols rely on it; tested without a GPU.

namespace rocmforge {
namespace {

class HopperLaunch : public testing::Test {
 protected:
  HopperLaunch() {
    std::vector<std::string> objects{
        "any", "experts_vectors", "matmul_tiles_convert", "matmul_tiles_mixed", "matmul_add_segments", "matmul_cluster"};
    for (const hopper::WeightFormat format : hopper::weight_formats) {
      objects.push_back("matmul_tiles_" + std::string(hopper::weight_traits(format).name));
    }
    for (const std::string& object : objects) {
      folder_.write("sm_90/" + object + ".cubin",
                    "\x7f"
                    "ELF code");
    }
    constexpr int multiprocessors = 132;
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_, "sm_90", false, 32, multiprocessors),
                                       KernelLibrary::from_folder(folder_.path()));
  }

  /// The arguments of the last launch.
  template <class Args>
  [[nodiscard]] Args last() const {
    Args args;
    EXPECT_EQ(log_->arguments.back().size(), sizeof(args));
    std::memcpy(&args, log_->arguments.back().data(), sizeof(args));
    return args;
  }

  // Addresses of a device: aligned, and not to be read by the host.
  template <class T = float>
  static T* place(int i) {
    return reinterpret_cast<T*>(std::uintptr_t{0x100000} * static_cast<unsigned>(i + 1));
  }

  /// One token's product with two experts of eight.
  void run_down(DType type, const ExpertMatmul::Args::Before& before = {}) {
    const ExpertWeight down{.dtype = type, .data = place(0), .n = 256, .expert_bytes = 1 << 20};
    ExecutionContext context{.stream = &device_->stream()};
    make_hopper_expert_matmul()->run({.x = place(1),
                                      .tokens = 1,
                                      .k = 256,
                                      .used = 2,
                                      .experts = 8,
                                      .ids = place<std::int32_t>(2),
                                      .weights = std::span(&down, 1),
                                      .shares = place(3),
                                      .out = place(4),
                                      .workspace = place(5),
                                      .order = place(6),
                                      .before = before},
                                     context);
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
};

/// A kernel that lets its successor start once its predecessor has ended, as the router does, and gate and up.
void launch_in_turn(Stream& stream) {
  LaunchShape shape;
  shape.dependent = true;
  shape.waits_first = true;
  const std::int32_t argument = 0;
  stream.launch("any", "in_turn", shape, std::as_bytes(std::span(&argument, 1)));
}

TEST_F(HopperLaunch, DownReadsTheChoiceEarlyOnlyBehindGateAndUp) {
  const auto chosen_before = [&](const ExpertMatmul::Args::Before& before) {
    Stream& stream = device_->stream();
    stream.allow_overlap(true);
    launch_in_turn(stream);
    run_down(DType::q4_0, before);
    return last<hopper::ExpertVectorArgs>().chosen_before;
  };
  EXPECT_EQ(chosen_before({.k = 256, .weight = DType::q4_0, .made_x = true}), 1);
  EXPECT_EQ(chosen_before({}), 0) << "the router's launch is the last one, and has not ended";
}

TEST_F(HopperLaunch, EachWorkGroupOfAProductHasATile) {
  const auto kernel = make_hopper_matmul();
  std::vector<char> workspace(kernel->workspace_bytes(48, 512) + 64);
  for (const std::int64_t n : {16, 64, 192}) {
    const MatmulOutput output{.dtype = DType::q4_0, .weight = place(0), .n = n, .out = place(1), .stride = n};
    ExecutionContext context{.stream = &device_->stream()};
    kernel->run({.x = place(2),
                 .tokens = 48,
                 .k = 512,
                 .x_stride = 512,
                 .outputs = std::span(&output, 1),
                 .workspace = workspace.data()},
                context);
    ASSERT_NE(log_->kernels.back().find("matmul_few"), std::string::npos) << log_->kernels.back();
    const auto args = last<hopper::MatmulTilesArgs>();
    const std::uint32_t groups = log_->shapes.back().grid[0];
    for (std::uint32_t group = 0; group < groups; ++group) {
      EXPECT_TRUE(hopper::FewSpans(args, group, groups).any());
    }
  }
}

/// The types that Hopper's kernels read, with the names of their forms.
std::vector<std::pair<DType, std::string>> served_types() {
  std::vector<std::pair<DType, std::string>> types;
  for (const gpu::StoredType& stored : gpu::stored_types) {
    if (hopper::has_weight_layout(stored.type)) {
      types.emplace_back(stored.type, hopper::weight_traits(stored.format).name);
    }
  }
  return types;
}

TEST_F(HopperLaunch, ProductsTakeTheKernelOfTheirFormAndTokens) {
  const auto kernel = make_hopper_matmul();
  std::vector<char> workspace(kernel->workspace_bytes(300, 4096) + 64);
  const auto launched = [&](DType type, std::int64_t n, std::int64_t k, std::int64_t tokens) {
    const MatmulOutput output{.dtype = type, .weight = place(0), .n = n, .out = place(1), .stride = n};
    ExecutionContext context{.stream = &device_->stream()};
    kernel->run({.x = place(2),
                 .tokens = tokens,
                 .k = k,
                 .x_stride = k,
                 .outputs = std::span(&output, 1),
                 .workspace = workspace.data()},
                context);
    return log_->kernels.back();
  };
  const auto launched_before = [&] { return log_->kernels[log_->kernels.size() - 2]; };
  for (const auto& [type, form] : served_types()) {
    EXPECT_EQ(launched(type, 64, 512, 16), "matmul_few_" + form + "_16");
    EXPECT_EQ(launched(type, 64, 512, 48), "matmul_few_" + form + "_64");
    EXPECT_EQ(launched(type, 64, 4096, 16), "matmul_add_segments_16");
    EXPECT_EQ(launched_before(), "matmul_high_" + form + "_16");
    EXPECT_EQ(launched(type, 64, 4096, 100), "matmul_add_segments_64");
    EXPECT_EQ(launched_before(), "matmul_high_" + form + "_64");
    EXPECT_EQ(launched(type, 1 << 16, 4096, 300).find("matmul_tiles_" + form + "_"), 0u);
    EXPECT_EQ(launched(type, 64, 1280, 12), "matmul_cluster_16");
  }
}

TEST_F(HopperLaunch, QueriesKeysAndValuesOfTwoFormsAreOneLaunch) {
  const auto kernel = make_hopper_matmul();
  std::vector<char> workspace(kernel->workspace_bytes(64, 4096) + 64);
  const auto output = [](DType type, std::int64_t n, int at) {
    return MatmulOutput{.dtype = type, .weight = place(at), .n = n, .out = place(at + 3), .stride = n};
  };
  const auto launches = [&](DType keys, DType values) {
    const MatmulOutput outputs[] = {output(keys, 4096, 0), output(keys, 1024, 1), output(values, 1024, 2)};
    log_->kernels.clear();
    ExecutionContext context{.stream = &device_->stream()};
    kernel->run(
        {.x = place(6), .tokens = 64, .k = 4096, .x_stride = 4096, .outputs = outputs, .workspace = workspace.data()},
        context);
    return log_->kernels;
  };
  const std::string convert = "matmul_tiles_convert";
  const std::string add = "matmul_add_segments_64";
  using Kernels = std::vector<std::string>;
  EXPECT_EQ(launches(DType::q4_k, DType::q6_k), (Kernels{convert, "matmul_high_q4_k_q6_k_64", add}));
  EXPECT_EQ(launches(DType::q4_k, DType::q4_k), (Kernels{convert, "matmul_high_q4_k_64", add}));
  EXPECT_EQ(launches(DType::q4_0, DType::q8_0), (Kernels{convert, "matmul_high_q4_0_64", add, "matmul_high_q8_0_64", add}));
}

TEST_F(HopperLaunch, ExpertsTakeTheKernelOfTheirForm) {
  for (const auto& [type, form] : served_types()) {
    run_down(type);
    EXPECT_EQ(log_->kernels.back(), "expert_down_" + form);
  }
}

TEST(KernelTable, KnowsItsForms) {
  constexpr TokenKernels<int, 2> kernels{{{16, {"object", "of_16"}}, {32, {"object", "of_32"}}}};
  EXPECT_EQ(&kernel_of(kernels, 32), &kernels[1].kernel);
  EXPECT_THROW((void)kernel_of(kernels, 24), LogicError);
}

}  // namespace
}  // namespace rocmforge
