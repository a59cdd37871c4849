// Tests of a real GPU and its runtime, with the kernels of device_check.hip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "device_check_args.h"
#include "error_of.h"
#include "gpu_fixture.h"
#include "tally_args.h"

namespace rocmforge {
namespace {

using test::error_of;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Kernel<gpu::ScaleArgs> scale{"device_check", "scale"};
constexpr Kernel<gpu::ReverseArgs> reverse{"device_check", "reverse"};
constexpr Kernel<gpu::WaveArgs> wave{"device_check", "wave"};
constexpr Kernel<gpu::RelayArgs> relay{"device_check", "relay", LaunchOrder::by_kernel};
constexpr Kernel<gpu::TallyArgs> tally_together{"device_check", "tally_together"};
constexpr Kernel<gpu::FaultArgs> fault{"device_check", "fault"};
constexpr Kernel<gpu::WaveArgs> narrow{"device_check", "narrow"};

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

class GpuDevice : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    try {
      (void)device().function("device_check", "scale");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what() << " (it is made from tests/device/device_check.hip)";
    }
    before_ = counters();
  }
  static DriverCounters counters() { return device().driver().counters(); }
  [[nodiscard]] DriverCounters counted() const { return counters() - before_; }
  static std::vector<float> download(const DeviceBuffer& buffer) {
    std::vector<float> values(buffer.size_bytes() / sizeof(float));
    device().download(values.data(), buffer.data(), buffer.size_bytes());
    return values;
  }
  static DeviceBuffer upload(const std::vector<float>& values) {
    DeviceBuffer buffer = device().allocate(values.size() * sizeof(float), "a test");
    device().upload(buffer.data(), values.data(), buffer.size_bytes());
    return buffer;
  }
  static LaunchShape covering(std::size_t count) {
    return {{static_cast<std::uint32_t>((count + 255) / 256), 1, 1}, {256, 1, 1}, 0};
  }

  DriverCounters before_;
};

TEST_F(GpuDevice, describes_itself) {
  const DeviceInfo& info = device().info();
  EXPECT_TRUE(info.is_gpu());
  EXPECT_FALSE(info.name.empty());
  EXPECT_THAT(info.architecture, StartsWith(info.kind == DeviceKind::hip ? "gfx" : "sm_"));
  EXPECT_THAT(info.wave_size, testing::AnyOf(32, 64));
  EXPECT_GE(info.compute_units, 1);
  EXPECT_GE(info.shared_memory_bytes, 48 << 10);
  EXPECT_GE(info.l2_bytes, 1 << 18);
  const Driver::Memory memory = *device().memory();
  EXPECT_GT(memory.free_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
  EXPECT_FALSE(device().driver().runtime().empty());
}

TEST_F(GpuDevice, gives_zeroed_memory_and_takes_it_back) {
  constexpr std::size_t size_bytes = std::size_t{64} << 20;
  const std::int64_t free_before = device().memory()->free_bytes;
  for (int i = 0; i < 32; ++i) {
    const DeviceBuffer buffer = device().allocate(size_bytes, "a test");
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0);
    if (i % 8 == 0) {
      const std::vector<float> values = download(buffer);
      ASSERT_TRUE(std::ranges::all_of(values, [](float value) { return value == 0.0F; }));
    }
    device().stream().fill(buffer.data(), 0xFF, size_bytes);
  }
  // The runtime may keep some for itself, and other programs take some.
  EXPECT_GE(device().memory()->free_bytes, free_before - std::int64_t{256} * (1 << 20));
}

TEST_F(GpuDevice, runs_kernels_in_the_order_of_the_stream) {
  const std::vector<float> values = numbers(100'003);
  const DeviceBuffer buffer = upload(values);
  scale.launch(device().stream(), covering(values.size()), {buffer.as<float>(), 100'003, 2.0F});
  scale.launch(device().stream(), covering(values.size()), {buffer.as<float>(), 100'003, 0.5F});
  const std::vector<float> result = download(buffer);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(result[i], (values[i] * 2.0F + 1.0F) * 0.5F + 1.0F) << i;
  }
  EXPECT_EQ(counted().launches, 2);
}

TEST_F(GpuDevice, copies_fills_and_counts) {
  Stream& stream = device().stream();
  const DeviceBuffer buffer = device().allocate(1024, "a test");
  PinnedBuffer pinned = device().allocate_pinned(1024);
  std::iota(pinned.as<std::uint8_t>(), pinned.as<std::uint8_t>() + 512, std::uint8_t{0});
  before_ = counters();
  stream.copy_to_device(buffer.data(), pinned.data(), 512);
  stream.copy_on_device(buffer.data() + 512, buffer.data() + 1, 511);
  stream.fill(buffer.data(), 0xC3, 100);
  stream.copy_to_host(pinned.data(), buffer.data(), 1024);
  stream.synchronize();
  const auto* bytes = pinned.as<std::uint8_t>();
  EXPECT_EQ(bytes[0], 0xC3);
  EXPECT_EQ(bytes[99], 0xC3);
  EXPECT_EQ(bytes[100], 100);
  EXPECT_EQ(bytes[512], 1);
  EXPECT_EQ(bytes[1022], 255);
  EXPECT_EQ(bytes[1023], 0);
  EXPECT_EQ(counted(), (DriverCounters{.copies_to_device = 1,
                                       .bytes_to_device = 512,
                                       .copies_to_host = 1,
                                       .bytes_to_host = 1024,
                                       .copies_on_device = 1,
                                       .fills = 1,
                                       .synchronizations = 1}));
}

// A copy deep inside a large allocation, above 2 GiB, in more than one piece.
TEST_F(GpuDevice, copies_at_large_offsets) {
  constexpr std::size_t size_bytes = std::size_t{5} << 29;
  if (device().memory()->free_bytes < static_cast<std::int64_t>(size_bytes)) {
    GTEST_SKIP() << "less than 2.5 GiB are free";
  }
  const DeviceBuffer buffer = device().allocate(size_bytes, "a test");
  const std::size_t offset = size_bytes - (std::size_t{300} << 20);
  std::vector<std::uint32_t> sent((std::size_t{300} << 20) / 4);
  std::iota(sent.begin(), sent.end(), 17U);
  device().upload(buffer.data() + offset, sent.data(), sent.size() * 4);
  std::vector<std::uint32_t> received(sent.size());
  device().download(received.data(), buffer.data() + offset, received.size() * 4);
  EXPECT_TRUE(sent == received);
  std::uint32_t in_front = 1;
  device().download(&in_front, buffer.data() + offset - 4, 4);
  EXPECT_EQ(in_front, 0);
}

TEST_F(GpuDevice, gives_a_work_group_all_the_shared_memory_it_may_have) {
  for (const std::int64_t bytes : {std::int64_t{1024}, device().info().shared_memory_bytes, std::int64_t{40 << 10}}) {
    const std::vector<float> values = numbers(static_cast<std::size_t>(bytes) / 4);
    const DeviceBuffer in = upload(values);
    const DeviceBuffer out = device().allocate(in.size_bytes(), "a test");
    reverse.launch(device().stream(), {{1, 1, 1}, {256, 1, 1}, static_cast<std::uint32_t>(bytes)},
                   {out.as<float>(), in.as<float>(), bytes / 4});
    std::vector<float> result = download(out);
    std::ranges::reverse(result);
    ASSERT_TRUE(result == values) << bytes << " bytes";
  }
}

TEST_F(GpuDevice, runs_the_code_of_its_own_wave_size) {
  const DeviceBuffer out = device().allocate(3 * sizeof(std::int32_t), "a test");
  wave.launch(device().stream(), {{5, 1, 1}, {128, 1, 1}, 0}, {out.as<std::int32_t>()});
  std::array<std::int32_t, 3> result{};
  device().download(result.data(), out.data(), sizeof result);
  EXPECT_EQ(result[0], device().info().wave_size);
  EXPECT_EQ(result[1], device().info().wave_size);
  EXPECT_EQ(result[2], 5);
  const FunctionInfo info = device().function_info("device_check", "narrow");
  EXPECT_GT(info.registers, 0);
  EXPECT_EQ(info.max_threads, 64);
  EXPECT_EQ(info.scratch_bytes, 0);
}

// What every wave of every work-group has stored is seen by every wave of the one that is last.
TEST_F(GpuDevice, the_last_work_group_sees_what_all_have_stored) {
  constexpr std::uint32_t groups = 509;
  constexpr std::uint32_t threads = 256;
  constexpr std::size_t parts = std::size_t{groups} * threads;
  const DeviceBuffer buffer = device().allocate((parts + threads + 1) * sizeof(float), "a test");
  auto* numbers_of_all = buffer.as<float>();
  const gpu::TallyArgs args{numbers_of_all, buffer.as<std::uint32_t>() + parts + threads, numbers_of_all + parts};
  for (int repetition = 0; repetition < 100; ++repetition) {
    device().stream().fill(buffer.data(), 0, buffer.size_bytes());
    tally_together.launch(device().stream(), {{groups, 1, 1}, {threads, 1, 1}, 0}, args);
    std::vector<float> sums(threads);
    device().download(sums.data(), args.sum, threads * sizeof(float));
    ASSERT_THAT(sums, testing::Each(float{groups})) << "repetition " << repetition;
  }
}

// Each kernel of the chain may start before its predecessor has ended, and reads what that one's slowest work-groups write.
TEST_F(GpuDevice, kernels_that_overlap_keep_their_order) {
  constexpr std::int32_t count = 5000;
  constexpr std::int32_t rounds = 2000;
  constexpr std::size_t threads = 64;
  constexpr int links = 21;
  std::vector<float> expected = numbers(count);
  for (int link = 0; link < links; ++link) {
    std::ranges::reverse(expected);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      for (int round = 0; round < (i / threads % 2 == 1 ? rounds : 1); ++round) {
        expected[i] = expected[i] * 0.5F + 1.0F;
      }
    }
  }
  const std::vector<float> start = numbers(count);
  const DeviceBuffer first = upload(start);
  const DeviceBuffer second = upload(start);
  Stream& stream = device().stream();
  const LaunchShape shape{{(count + threads - 1) / threads, 1, 1}, {threads, 1, 1}, 0};
  const auto chain = [&] {
    for (int link = 0; link < links; ++link) {
      const bool even = link % 2 == 0;
      relay.launch(
          stream, shape,
          {even ? second.as<float>() : first.as<float>(), even ? first.as<float>() : second.as<float>(), count, rounds});
    }
  };
  const Graph graph = stream.capture(chain);
  for (int repetition = 0; repetition < 200; ++repetition) {
    stream.copy_to_device(first.data(), start.data(), first.size_bytes());
    if (repetition % 2 == 0) {
      stream.launch(graph);
    } else {
      chain();
    }
    ASSERT_EQ(download(second), expected) << "repetition " << repetition;
  }
}

TEST_F(GpuDevice, replays_a_recorded_graph) {
  Stream& stream = device().stream();
  const DeviceBuffer buffer = upload({1.0F, 2.0F});
  before_ = counters();
  const Graph graph = stream.capture([&] {
    for (int i = 0; i < 50; ++i) {
      scale.launch(stream, {}, {buffer.as<float>(), 1, 1.0F});
    }
  });
  EXPECT_EQ(download(buffer), (std::vector<float>{1.0F, 2.0F})) << "a recording ran";
  for (int i = 0; i < 4; ++i) {
    stream.launch(graph);
  }
  EXPECT_EQ(download(buffer), (std::vector<float>{201.0F, 2.0F}));
  EXPECT_EQ(counted().graph_launches, 4);
  EXPECT_EQ(counted().launches, 50);
}

TEST_F(GpuDevice, works_on_after_an_abandoned_recording) {
  Stream& stream = device().stream();
  const DeviceBuffer buffer = upload({1.0F});
  EXPECT_EQ(error_of([&] {
              stream.capture([&] {
                scale.launch(stream, {}, {buffer.as<float>(), 1, 1.0F});
                throw std::runtime_error("no room");
              });
            }),
            "no room");
  EXPECT_NE(error_of([&] { stream.capture([&] { stream.synchronize(); }); }), "no error");
  scale.launch(stream, {}, {buffer.as<float>(), 1, 1.0F});
  EXPECT_EQ(download(buffer), std::vector<float>{2.0F});
}

TEST_F(GpuDevice, orders_streams_and_measures_time_by_events) {
  constexpr std::int64_t count = 1 << 24;
  const DeviceBuffer buffer = device().allocate(count * sizeof(float), "a test");
  Stream other(device());
  Event start(device());
  Event end(device());
  Stream& stream = device().stream();
  const auto host_start = std::chrono::steady_clock::now();
  stream.record(start);
  for (int i = 0; i < 20; ++i) {
    scale.launch(stream, covering(count), {buffer.as<float>(), count, 1.0F});
  }
  stream.record(end);
  other.wait(end);
  float first = 0.0F;
  other.copy_to_host(&first, buffer.data(), sizeof first);
  other.synchronize();
  EXPECT_EQ(first, 20.0F);
  end.synchronize();
  EXPECT_TRUE(end.finished());
  const double seconds = Event::elapsed_seconds(start, end);
  const std::chrono::duration<double> host = std::chrono::steady_clock::now() - host_start;
  EXPECT_GT(seconds, 20 * 134e6 / 20e12) << "each pass moves 128 MiB, and no GPU moves 20 TB/s";
  EXPECT_LT(seconds, host.count());
}

TEST_F(GpuDevice, serves_any_thread) {
  std::vector<float> result;
  std::thread([&] {
    const DeviceBuffer buffer = upload({4.0F});
    scale.launch(device().stream(), {}, {buffer.as<float>(), 1, 3.0F});
    result = download(buffer);
  }).join();
  EXPECT_EQ(result, std::vector<float>{13.0F});
}

TEST_F(GpuDevice, refuses_what_it_cannot_do_and_works_on) {
  Stream& stream = device().stream();
  const DeviceBuffer out = device().allocate(64, "a test");
  EXPECT_THAT(error_of([&] { Kernel<gpu::WaveArgs>("device_check", "absent").launch(stream, {}, {}); }),
              HasSubstr("has no kernel absent"));
  EXPECT_EQ(error_of([&] {
              narrow.launch(stream, {{2, 1, 1}, {65, 1, 1}, 0}, {out.as<std::int32_t>()});
            }),
            "kernel narrow (grid 2x1x1, block 65x1x1, 0 bytes of dynamic shared memory): 65 threads in a work-group, the "
            "kernel takes at most 64");
  EXPECT_THAT(error_of([&] {
                wave.launch(stream, {{1, 1, 1}, {64, 64, 1}, 0}, {out.as<std::int32_t>()});
              }),
              HasSubstr("4096 threads in a work-group, the kernel takes at most 1024"));
  EXPECT_THAT(error_of([&] {
                reverse.launch(stream, {{1, 1, 1}, {1, 1, 1}, 1 << 20}, {});
              }),
              HasSubstr("1048576 bytes of shared memory (0 of them static)"));
  EXPECT_THAT(error_of([&] {
                wave.launch(stream, {{1, 70000, 1}, {1, 1, 1}, 0}, {out.as<std::int32_t>()});
              }),
              testing::AnyOf(StartsWith("kernel wave (grid 1x70000x1, block 1x1x1, 0 bytes of dynamic shared memory): "),
                             "no error"));  // AMD's grids are that large
  if (device().info().kind == DeviceKind::cuda) {
    EXPECT_THAT(error_of([&] {
                  Kernel<gpu::ScaleArgs>("device_check", "wave").launch(stream, {}, {out.as<float>(), 0, 0});
                }),
                testing::AnyOf(HasSubstr("24 bytes of arguments, the code object expects 8"), "no error"));
  }
  stream.synchronize();
  narrow.launch(stream, {{1, 1, 1}, {64, 1, 1}, 0}, {out.as<std::int32_t>()});
  std::int32_t threads = 0;
  device().download(&threads, out.data(), sizeof threads);
  EXPECT_EQ(threads, 64);
}

TEST_F(GpuDevice, refuses_memory_it_does_not_have) {
  const Driver::Memory memory = *device().memory();
  EXPECT_THAT(
      error_of([&] { device().allocate(static_cast<std::size_t>(memory.total_bytes) + (1 << 30), "the KV cache"); }),
      testing::AllOf(StartsWith("cannot allocate "), HasSubstr(" GiB for the KV cache: "), HasSubstr("GiB are free on ")));
  EXPECT_EQ(counted().allocations, 0);
  EXPECT_THAT(error_of([&] { device().driver().allocate(static_cast<std::size_t>(memory.total_bytes) * 2); }),
              testing::AnyOf(HasSubstr("OUT_OF_MEMORY"), HasSubstr("OutOfMemory"), HasSubstr("MemoryAllocation")));
}

TEST_F(GpuDevice, refuses_a_code_object_that_is_none) {
  const std::vector<std::byte> bytes(4096, std::byte{7});
  EXPECT_THAT(error_of([&] { device().driver().load_module(bytes, "gfx0/broken"); }), StartsWith("gfx0/broken: "));
}

// After a fault the process can't use the device any more, so another process causes it. (The HIP runtime ends the process
// itself.)
TEST_F(GpuDevice, a_fault_names_the_last_kernel) {
  if (device().info().kind != DeviceKind::cuda) {
    GTEST_SKIP() << "a fault ends the process";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [] {
    fault.launch(device().stream(), {{3, 1, 1}, {64, 1, 1}, 0}, {reinterpret_cast<std::int32_t*>(16)});
    const std::string error = error_of([] { device().stream().synchronize(); });
    std::fputs(error.c_str(), stderr);
    std::_Exit(7);
  };
  EXPECT_EXIT(fail(), testing::ExitedWithCode(7),
              "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS.*; the last launch was kernel fault \\(grid 3x1x1");
}

}  // namespace
}  // namespace rocmforge
