// The driver under the conformance suite on emulated GPUs, through kernels that `forge kernels` compiled. Skipped where the
// emulator or the code objects are missing.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "device/tally_args.h"
#include "emulator/emulated_driver.h"
#include "kernels/attention/portable/attention_steps_args.h"
#include "paths.h"
#include "test_device.h"

namespace rocmforge::test {
namespace {

using testing::HasSubstr;

constexpr Kernel<gpu::ScaleArgs> scale{"attention_steps", "scale"};
constexpr LaunchShape shape{.grid = {1, 1, 1}, .block = {256, 1, 1}};
constexpr std::size_t count = 100;

class EmulatedDriver : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    try {
      const std::string folder = environment("ROCMFORGE_KERNEL_DIR", test::source_path("build/kernels"));
      device_ = std::make_unique<Device>(open_emulated_driver("gfx1100"), KernelLibrary::from_folder(folder));
    } catch (const Error& error) {
      problem_ = error.what();
    }
  }
  static void TearDownTestSuite() { device_.reset(); }

  void SetUp() override {
    if (device_ == nullptr) {
      GTEST_SKIP() << problem_;
    }
  }

  static DeviceBuffer filled() {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 1.0F);
    DeviceBuffer buffer = device_->allocate(count * sizeof(float), "numbers");
    device_->upload(buffer.data(), values.data(), buffer.size_bytes());
    return buffer;
  }
  static std::vector<float> read(const DeviceBuffer& buffer) {
    std::vector<float> values(count);
    device_->download(values.data(), buffer.data(), buffer.size_bytes());
    return values;
  }
  static gpu::ScaleArgs arguments(float* address, std::int64_t scaled, float factor) {
    return {.x = address,
            .count = scaled,
            .factor = factor,
            .soft_cap = 0.0F,
            .width = scaled,
            .weights = nullptr,
            .least = nullptr,
            .most = nullptr};
  }
  /// The error of scaling `scaled` numbers at `address`, empty when there is none.
  static std::string problem_of(float* address, std::int64_t scaled) {
    try {
      scale.launch(device_->stream(), shape, arguments(address, scaled, 3.0F));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  inline static std::unique_ptr<Device> device_;
  inline static std::string problem_;
};

TEST_F(EmulatedDriver, RunsAKernel) {
  const DeviceBuffer numbers = filled();
  scale.launch(device_->stream(), shape, arguments(numbers.as<float>(), count - 1, 3.0F));
  const std::vector<float> values = read(numbers);
  EXPECT_EQ(values[0], 3.0F);
  EXPECT_EQ(values[count - 2], 3.0F * (count - 1));
  EXPECT_EQ(values[count - 1], float{count}) << "behind what was to be scaled";
}

TEST_F(EmulatedDriver, AGraphRunsWhenItIsLaunchedAndNotWhenItIsRecorded) {
  const DeviceBuffer numbers = filled();
  const Graph graph = device_->stream().capture(
      [&] { scale.launch(device_->stream(), shape, arguments(numbers.as<float>(), count, 2.0F)); });
  EXPECT_EQ(read(numbers)[0], 1.0F);
  device_->stream().launch(graph);
  device_->stream().launch(graph);
  EXPECT_EQ(read(numbers)[4], 20.0F);
}

TEST_F(EmulatedDriver, AKernelThatLeavesItsMemoryIsAnErrorThatNamesKernelAndAddress) {
  const DeviceBuffer numbers = device_->allocate(64 * sizeof(float), "as many bytes as the alignment");
  const std::string problem = problem_of(numbers.as<float>(), 65);
  EXPECT_THAT(problem, HasSubstr("kernel scale (grid 1x1x1"));
  const auto end = std::bit_cast<std::uintptr_t>(numbers.data() + numbers.size_bytes());
  EXPECT_THAT(problem, HasSubstr(fmt::format("touches memory of no buffer at 0x{:x}", end)));
  EXPECT_EQ(problem_of(numbers.as<float>(), 64), "") << "the worker goes on";
}

TEST_F(EmulatedDriver, AMissingFenceShows) {
  constexpr std::uint32_t groups = 4;
  const auto tally = [](const Kernel<gpu::TallyArgs>& kernel) {
    const DeviceBuffer numbers = device_->allocate((groups + 2) * sizeof(float), "numbers");
    device_->stream().fill(numbers.data(), 0, numbers.size_bytes());
    auto* parts = numbers.as<float>();
    kernel.launch(device_->stream(), {.grid = {groups, 1, 1}, .block = {32, 1, 1}},
                  {parts, reinterpret_cast<std::uint32_t*>(parts + groups + 1), parts + groups});
    std::vector<float> values(groups + 1);
    device_->download(values.data(), parts, values.size() * sizeof(float));
    return values;
  };
  EXPECT_THAT(tally({"device_check", "tally"}), testing::ElementsAre(1, 2, 3, 4, 10));
  EXPECT_THAT(tally({"device_check", "tally_without_fence"}), testing::ElementsAre(1, 2, 3, 4, 4))
      << "its own number alone was there in time";
}

/// One thread's fences, between barriers, order what every wave of a work-group stored and every wave of the last one reads.
TEST_F(EmulatedDriver, OneThreadsFencesServeItsWorkGroup) {
  constexpr std::uint32_t groups = 5;
  constexpr std::uint32_t threads = 160;  // five waves
  constexpr std::size_t parts = groups * threads;
  const Kernel<gpu::TallyArgs> together{"device_check", "tally_together"};
  const DeviceBuffer numbers = device_->allocate((parts + threads + 1) * sizeof(float), "numbers");
  device_->stream().fill(numbers.data(), 0, numbers.size_bytes());
  auto* counter = numbers.as<std::uint32_t>() + parts + threads;
  together.launch(device_->stream(), {.grid = {groups, 1, 1}, .block = {threads, 1, 1}},
                  {numbers.as<float>(), counter, numbers.as<float>() + parts});
  std::vector<float> sums(threads + 1);
  device_->download(sums.data(), numbers.as<float>() + parts, sums.size() * sizeof(float));
  EXPECT_EQ(sums.back(), 0.0F) << "the counter";
  sums.pop_back();
  EXPECT_THAT(sums, testing::Each(float{groups}));

  device_->stream().fill(numbers.data(), 0, numbers.size_bytes());
  const Kernel<gpu::TallyArgs> at_arrival{"device_check", "tally_at_arrival"};
  at_arrival.launch(device_->stream(), {.grid = {groups, 1, 1}, .block = {threads, 1, 1}},
                    {numbers.as<float>(), counter, numbers.as<float>() + parts});
  float sum = 0.0F;
  device_->download(&sum, numbers.as<float>() + parts, sizeof sum);
  EXPECT_EQ(sum, float{parts});
}

TEST_F(EmulatedDriver, FreedMemoryIsNobodys) {
  DeviceBuffer numbers = filled();
  float* const address = numbers.as<float>();
  const std::int64_t before = device_->driver().memory().free_bytes;
  numbers = {};
  EXPECT_GT(device_->driver().memory().free_bytes, before);
  EXPECT_THAT(problem_of(address, 1), HasSubstr("touches memory of no buffer"));
}

TEST_F(EmulatedDriver, ALaunchThatAGpuWouldRefuseIsRefused) {
  const DeviceBuffer numbers = filled();
  const gpu::ScaleArgs args = arguments(numbers.as<float>(), count, 1.0F);
  EXPECT_THROW(scale.launch(device_->stream(), {.grid = {1, 1, 1}, .block = {2048, 1, 1}}, args), Error);
  EXPECT_THROW(scale.launch(device_->stream(), {.shared_bytes = 65537}, args), Error);
  const auto bytes = std::as_bytes(std::span(&args, 1));
  EXPECT_THROW(device_->stream().launch("elementwise", "scale", shape, bytes.first(bytes.size() - 1)), Error);
}

TEST_F(EmulatedDriver, ACopyPastTheEndOfAnAllocationIsRefused) {
  const DeviceBuffer numbers = filled();
  std::vector<float> values(count + 1);
  EXPECT_THROW(device_->download(values.data(), numbers.data(), values.size() * sizeof(float)), Error);
  EXPECT_THROW(device_->upload(numbers.data() + 4, values.data(), count * sizeof(float)), Error);
}

/// Opened for one test: a process has room for one emulated device at a time.
TEST(EmulatedDriverWithASeed, MixesTheStepsOfWavesAndWorkGroups) {
  setenv("ROCMFORGE_EMULATOR_SEED", "1", 1);
  std::unique_ptr<Device> device;
  try {
    const std::string folder = environment("ROCMFORGE_KERNEL_DIR", test::source_path("build/kernels"));
    device = std::make_unique<Device>(open_emulated_driver("gfx1100"), KernelLibrary::from_folder(folder));
  } catch (const Error& error) {
    unsetenv("ROCMFORGE_EMULATOR_SEED");
    GTEST_SKIP() << error.what();
  }
  unsetenv("ROCMFORGE_EMULATOR_SEED");
  constexpr std::uint32_t groups = 16;
  constexpr std::uint32_t threads = 96;  // three waves
  constexpr std::size_t parts = groups * threads;
  const DeviceBuffer numbers = device->allocate((parts + threads + 1) * sizeof(float), "numbers");
  const gpu::TallyArgs args{numbers.as<float>(), numbers.as<std::uint32_t>() + parts + threads, numbers.as<float>() + parts};
  const LaunchShape all{.grid = {groups, 1, 1}, .block = {threads, 1, 1}};
  const auto run = [&](const Kernel<gpu::TallyArgs>& kernel) {
    device->stream().fill(numbers.data(), 0, numbers.size_bytes());
    kernel.launch(device->stream(), all, args);
  };
  std::uint32_t counted = 0;
  for (int i = 0; i < 8; ++i) {
    run({"device_check", "tally_together"});
    std::vector<float> sums(threads);
    device->download(sums.data(), args.sum, sums.size() * sizeof(float));
    EXPECT_THAT(sums, testing::Each(float{groups}));
    run({"device_check", "count_in_two_steps"});
    std::uint32_t count = 0;
    device->download(&count, args.done, sizeof count);
    counted += count;
  }
  EXPECT_LT(counted, 8 * groups) << "in the usual order none would be missing";
}

TEST(EmulatedDriverOf, AnUnknownArchitectureIsRefusedWithTheReason) {
  try {
    (void)open_emulated_driver("gfx700");
    FAIL() << "gfx700 was opened";
  } catch (const Error& error) {
    if (std::string(error.what()).find("TINYGRAD") != std::string::npos) {
      GTEST_SKIP() << error.what();
    }
    EXPECT_THAT(error.what(), HasSubstr("knows gfx1100"));
  }
}

}  // namespace
}  // namespace rocmforge::test
