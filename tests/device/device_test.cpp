#include "device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "error_of.h"
#include "fake_driver.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using test::error_of;
using testing::HasSubstr;
using testing::StartsWith;

struct AddArgs {
  float* out;  // [count]
  std::int32_t count;
};

class FakeDevice : public testing::Test {
 protected:
  FakeDevice() {
    for (const char* object : {"a", "b", "c"}) {
      folder_.write("gfx1100/" + std::string(object) + ".hsaco",
                    "\x7f"
                    "ELF code");
    }
    library_ = KernelLibrary::from_folder(folder_.path());
  }
  std::unique_ptr<Device> open() { return std::make_unique<Device>(std::make_unique<FakeDriver>(log_), library_); }

  TemporaryFolder folder_;
  KernelLibrary library_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
};

TEST(CpuDevice, gives_zeroed_aligned_memory) {
  Device device;
  EXPECT_FALSE(device.is_gpu());
  EXPECT_FALSE(device.memory().has_value());
  DeviceBuffer buffer = device.allocate(100'001, "a test");
  ASSERT_EQ(buffer.size_bytes(), 100'001);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0);
  for (std::size_t i = 0; i < buffer.size_bytes(); ++i) {
    ASSERT_EQ(buffer.data()[i], std::byte{0});
  }
  const std::array<int, 3> values{7, 8, 9};
  device.upload(buffer.data(), values.data(), sizeof values);
  std::array<int, 3> back{};
  device.download(back.data(), buffer.data(), sizeof back);
  EXPECT_EQ(back, values);
  PinnedBuffer pinned = device.allocate_pinned(64);
  EXPECT_EQ(*pinned.as<std::int64_t>(), 0);
}

TEST(CpuDevice, moves_buffers_and_takes_empty_ones) {
  Device device;
  DeviceBuffer first = device.allocate(64, "a test");
  std::byte* data = first.data();
  DeviceBuffer second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size_bytes(), 0);
  EXPECT_EQ(second.data(), data);
  second = device.allocate(0, "nothing");
  EXPECT_EQ(second.data(), nullptr);
  EXPECT_EQ(device.allocate_pinned(0).data(), nullptr);
}

TEST(CpuDevice, counts_the_bytes_of_its_own_buffers) {
  Device device;
  Device other;
  const DeviceBuffer elsewhere = other.allocate(1000, "a test");
  DeviceBuffer first = device.allocate(64, "a test");
  const DeviceBuffer second = device.allocate(1, "a test");
  EXPECT_EQ(device.allocated_bytes(), 65);
  DeviceBuffer moved = std::move(first);
  EXPECT_EQ(device.allocated_bytes(), 65);
  moved = {};
  EXPECT_EQ(device.allocated_bytes(), 1);
  const PinnedBuffer pinned = device.allocate_pinned(64);
  EXPECT_EQ(device.allocated_bytes(), 1) << "pinned memory is the host's";
  EXPECT_EQ(other.allocated_bytes(), 1000);
}

TEST(CpuDevice, says_what_could_not_be_allocated) {
  Device device;
  EXPECT_THAT(error_of([&] { device.allocate(std::size_t{1} << 60, "the KV cache"); }),
              StartsWith("cannot allocate 1073741824.00 GiB for the KV cache: "));
  EXPECT_THAT(error_of([&] { (void)device.function("a", "add"); }), HasSubstr("the CPU has no code objects"));
}

TEST_F(FakeDevice, loads_its_architecture_and_gives_everything_back) {
  {
    const auto device = open();
    EXPECT_TRUE(device->is_gpu());
    EXPECT_THAT(log_->calls, testing::ElementsAre("load gfx1100/a", "load gfx1100/b", "load gfx1100/c"));
    Event event(*device);
    Graph graph = device->stream().capture([&] { device->stream().record(event); });
    PinnedBuffer pinned = device->allocate_pinned(8);
    DeviceBuffer buffer = device->allocate(1000, "a test");
    Event moved = std::move(event);
    Graph moved_graph = std::move(graph);
    EXPECT_TRUE(moved_graph);
    EXPECT_FALSE(graph);
    moved_graph = Graph();
    EXPECT_TRUE(log_->graphs.empty());
    EXPECT_EQ(log_->events.size(), 1);
    EXPECT_EQ(log_->pinned.size(), 1);
    EXPECT_EQ(log_->memory.size(), 1);
  }
  EXPECT_TRUE(log_->nothing_left());
  EXPECT_TRUE(log_->destroyed);
}

/// Runtimes may read a code object as long as its module is loaded.
TEST_F(FakeDevice, keeps_the_code_objects_of_a_library_that_is_gone) {
  auto device = open();
  library_ = KernelLibrary();
  device.reset();
  EXPECT_TRUE(log_->code_was_there) << "files were unmapped before their modules were unloaded";
  EXPECT_TRUE(log_->nothing_left());
}

TEST_F(FakeDevice, refuses_a_device_without_kernels_and_names_what_there_is) {
  EXPECT_EQ(error_of([&] { Device(std::make_unique<FakeDriver>(log_, "gfx1201"), library_); }),
            "there are no kernels for Fake GPU (gfx1201), only for gfx1100");
  EXPECT_EQ(error_of([&] { Device(std::make_unique<FakeDriver>(log_, "gfx1201"), KernelLibrary()); }),
            "there are no kernels for Fake GPU (gfx1201), nor for any other GPU");
}

TEST_F(FakeDevice, unloads_what_was_loaded_when_one_object_is_refused) {
  log_->fail_on = "load gfx1100/c";
  EXPECT_EQ(error_of([&] { open(); }), "fake: refused");
  EXPECT_TRUE(log_->nothing_left());
}

/// Runtimes older than generic targets do not accept their code objects.
TEST_F(FakeDevice, says_how_to_compile_when_generic_objects_are_refused) {
  folder_.write("gfx10-3-generic/a.hsaco",
                "\x7f"
                "ELF code");
  library_ = KernelLibrary::from_folder(folder_.path());
  log_->fail_on = "load gfx10-3-generic/a";
  EXPECT_EQ(
      error_of([&] { Device(std::make_unique<FakeDriver>(log_, "gfx1032"), library_); }),
      "fake: refused; the runtime may be too old for kernels of a whole generation: `./forge kernels gfx1032` compiles "
      "them, and the next build embeds them");
  EXPECT_TRUE(log_->nothing_left());
}

TEST_F(FakeDevice, counts_what_it_is_asked_to_do) {
  const auto device = open();
  DeviceBuffer buffer = device->allocate(4096, "a test");
  Stream& stream = device->stream();
  const DriverCounters before = device->driver().counters();
  std::array<std::byte, 32> host{};
  stream.copy_to_device(buffer.data(), host.data(), 32);
  stream.copy_to_device(buffer.data(), host.data(), 8);
  stream.copy_to_host(host.data(), buffer.data(), 16);
  stream.copy_to_host(nullptr, nullptr, 0);
  stream.copy_on_device(buffer.data(), buffer.data() + 64, 64);
  stream.fill(buffer.data(), 1, 10);
  const Kernel<AddArgs> add("a", "add");
  add.launch(stream, {}, {buffer.as<float>(), 3});
  add.launch(stream, {}, {buffer.as<float>(), 4});
  stream.launch(stream.capture([&] { add.launch(stream, {}, {buffer.as<float>(), 5}); }));
  stream.synchronize();
  Event event(*device);
  event.synchronize();
  const DriverCounters expected{.copies_to_device = 2,
                                .bytes_to_device = 40,
                                .copies_to_host = 1,
                                .bytes_to_host = 16,
                                .copies_on_device = 1,
                                .fills = 1,
                                .launches = 3,
                                .graph_launches = 1,
                                .synchronizations = 2,
                                .allocations = 0};
  EXPECT_EQ(device->driver().counters() - before, expected);
  EXPECT_EQ(before.allocations, 1);
}

TEST_F(FakeDevice, waits_after_each_launch_that_is_not_recorded) {
  const auto device = open();
  Stream& stream = device->stream();
  const Kernel<AddArgs> add("a", "add");
  const auto waits = [&](auto&& act) {
    const DriverCounters before = device->driver().counters();
    act();
    return (device->driver().counters() - before).synchronizations;
  };
  const auto twice = [&] {
    add.launch(stream, {}, {nullptr, 3});
    add.launch(stream, {}, {nullptr, 3});
  };
  EXPECT_EQ(waits(twice), 0);
  stream.wait_after_launches(true);
  EXPECT_EQ(waits(twice), 2);
  EXPECT_EQ(waits([&] { stream.capture(twice); }), 0);
  EXPECT_EQ(waits(twice), 2) << "a recording that has ended";
  stream.wait_after_launches(false);
  EXPECT_EQ(waits(twice), 0);
}

TEST_F(FakeDevice, does_not_count_what_failed) {
  const auto device = open();
  log_->fail_on = "launch";
  const DriverCounters before = device->driver().counters();
  EXPECT_THROW(Kernel<AddArgs>("a", "add").launch(device->stream(), {}, {nullptr, 3}), Error);
  EXPECT_EQ(device->driver().counters() - before, DriverCounters{});
}

TEST_F(FakeDevice, passes_the_arguments_as_they_are_and_looks_a_kernel_up_once) {
  const auto device = open();
  const Kernel<AddArgs> add("b", "add");
  AddArgs args{};
  args.count = 17;
  for (int i = 0; i < 3; ++i) {
    add.launch(device->stream(), {}, args);
  }
  Kernel<AddArgs>("b", "subtract").launch(device->stream(), {}, args);
  Kernel<AddArgs>("c", "add").launch(device->stream(), {}, args);
  EXPECT_EQ(log_->lookups, 3);
  ASSERT_EQ(log_->arguments.size(), 5);
  ASSERT_EQ(log_->arguments[0].size(), sizeof args);
  AddArgs seen{};
  std::memcpy(&seen, log_->arguments[0].data(), sizeof seen);
  EXPECT_EQ(seen.count, 17);
  EXPECT_EQ(device->function_info("b", "add").registers, 24);
}

TEST_F(FakeDevice, errors_of_launches_carry_the_kernel_and_the_shape) {
  const auto device = open();
  Stream& stream = device->stream();
  const Kernel<AddArgs> add("a", "add");
  const LaunchShape shape{{8, 2, 1}, {256, 1, 1}, 1024};
  EXPECT_EQ(error_of([&] { Kernel<AddArgs>("a", "absent").launch(stream, shape, {}); }),
            "the code object a for gfx1100:xnack- has no kernel absent");
  EXPECT_EQ(error_of([&] { Kernel<AddArgs>("z", "add").launch(stream, shape, {}); }),
            "kernel add: there is no code object z for gfx1100:xnack-, only a, b, c");
  EXPECT_THAT(error_of([&] {
                add.launch(stream, {{0, 1, 1}, {1, 1, 1}, 0}, {});
              }),
              HasSubstr("kernel add: launched grid 0x1x1, block 1x1x1"));
  LaunchShape uneven = shape;
  uneven.cluster = 3;
  EXPECT_THAT(error_of([&] { add.launch(stream, uneven, {}); }), HasSubstr("launched grid 8x2x1"));
  EXPECT_THAT(error_of([&] { add.launch(stream, uneven, {}); }), HasSubstr("clusters of 3"));
  log_->fail_on = "launch";
  EXPECT_EQ(error_of([&] { add.launch(stream, shape, {}); }),
            "kernel add (grid 8x2x1, block 256x1x1, 1024 bytes of dynamic shared memory): fake: refused");
  log_->fail_on.clear();
  add.launch(stream, shape, {});
  log_->fail_on = "synchronize";
  EXPECT_EQ(
      error_of([&] { stream.synchronize(); }),
      "fake: refused; the last launch was kernel add (grid 8x2x1, block 256x1x1, 1024 bytes of dynamic shared memory)");
}

TEST_F(FakeDevice, errors_of_copies_carry_the_size) {
  const auto device = open();
  const DeviceBuffer buffer = device->allocate(64, "a test");
  std::array<std::byte, 48> host{};
  const std::map<std::string, std::string> calls{
      {"copy_to_device", "to the device"}, {"copy_to_host", "to the host"}, {"copy_on_device", "on the device"}};
  for (const auto& [call, words] : calls) {
    log_->fail_on = call;
    EXPECT_EQ(error_of([&] {
                device->stream().copy_to_device(buffer.data(), host.data(), 48);
                device->stream().copy_to_host(host.data(), buffer.data(), 48);
                device->stream().copy_on_device(buffer.data(), buffer.data() + 16, 48);
              }),
              "copying 48 bytes " + words + ": fake: refused");
  }
}

TEST_F(FakeDevice, abandons_a_capture_whose_recording_fails) {
  const auto device = open();
  Stream& stream = device->stream();
  EXPECT_EQ(error_of([&] { stream.capture([] { throw std::runtime_error("no room"); }); }), "no room");
  EXPECT_FALSE(log_->capturing);
  EXPECT_TRUE(log_->graphs.empty());
  log_->fail_on = "end_capture";  // a runtime refuses to end a recording that it invalidated itself
  EXPECT_EQ(error_of([&] { stream.capture([] { throw std::runtime_error("no room"); }); }), "no room");
  EXPECT_EQ(error_of([&] { stream.capture([] {}); }), "fake: refused");
  EXPECT_FALSE(log_->capturing);
  EXPECT_THROW(stream.launch(Graph()), LogicError);
}

TEST_F(FakeDevice, refuses_memory_in_advance_with_the_numbers) {
  const auto device = open();
  log_->free_bytes = std::int64_t{1181116006};
  const auto before = log_->calls.size();
  EXPECT_EQ(error_of([&] { device->allocate(std::size_t{3435973837}, "the KV cache"); }),
            "cannot allocate 3.20 GiB for the KV cache: 1.10 of 2.00 GiB are free on Fake GPU");
  EXPECT_EQ(log_->calls.size(), before) << "the runtime was asked";
  log_->fail_on = "allocate";
  EXPECT_EQ(error_of([&] { device->allocate(std::size_t{3} << 20, "weights"); }),
            "cannot allocate 3.00 MiB for weights: 1.10 of 2.00 GiB are free on Fake GPU (fake: refused)");
}

TEST_F(FakeDevice, gives_zeroed_memory_and_frees_it_when_that_fails) {
  const auto device = open();
  const DeviceBuffer buffer = device->allocate(777, "a test");
  for (std::size_t i = 0; i < buffer.size_bytes(); ++i) {
    ASSERT_EQ(buffer.data()[i], std::byte{0});
  }
  log_->fail_on = "fill";
  EXPECT_EQ(error_of([&] { device->allocate(64, "a test"); }), "filling 64 bytes: fake: refused");
  EXPECT_EQ(log_->memory.size(), 1);
}

/// However much of the device's memory other programs take.
TEST_F(FakeDevice, counts_the_bytes_of_its_own_buffers) {
  const auto device = open();
  EXPECT_EQ(device->allocated_bytes(), 0);
  DeviceBuffer buffer = device->allocate(1000, "a test");
  log_->free_bytes -= 5000;
  EXPECT_EQ(device->allocated_bytes(), 1000);
  buffer = {};
  EXPECT_EQ(device->allocated_bytes(), 0);
}

TEST_F(FakeDevice, uploads_and_downloads_and_waits) {
  const auto device = open();
  const DeviceBuffer buffer = device->allocate(sizeof(double), "a test");
  const double sent = 2.5;
  double received = 0.0;
  const DriverCounters before = device->driver().counters();
  device->upload(buffer.data(), &sent, sizeof sent);
  device->download(&received, buffer.data(), sizeof received);
  EXPECT_EQ(received, sent);
  EXPECT_EQ((device->driver().counters() - before).synchronizations, 1) << "an upload waits only to use a buffer again";
  EXPECT_EQ(log_->calls.back(), "synchronize");
  EXPECT_EQ(log_->unpinned_copies, 0);
}

}  // namespace
}  // namespace rocmforge
