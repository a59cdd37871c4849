#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "device/device.h"
#include "device/peers.h"
#include "device/uploader.h"
#include "error_of.h"
#include "fake_hip_runtime.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using test::error_of;
using testing::HasSubstr;
using testing::Not;

/// The HIP driver over a runtime whose calls can fail (fake_hip_runtime.cpp).
class HipDriverTest : public testing::Test {
 protected:
  HipDriverTest() {
    std::filesystem::create_directories(rocm_.path() / "lib");
    std::filesystem::create_symlink(ROCMFORGE_FAKE_HIP_RUNTIME, rocm_.path() / "lib/libamdhip64.so");
    objects_.write("gfx1100/a.hsaco",
                   "\x7f"
                   "ELF code");
    library_ = KernelLibrary::from_folder(objects_.path());
    void* runtime = ::dlopen(ROCMFORGE_FAKE_HIP_RUNTIME, RTLD_NOW | RTLD_LOCAL);
    fake_ = reinterpret_cast<FakeHip* (*)()>(::dlsym(runtime, "fake_hip"))();
    *fake_ = FakeHip();
    set_rocm_surroundings({.folders = {rocm_.path()}, .python_prefixes = {}, .settings = {}});
  }
  ~HipDriverTest() override { set_rocm_surroundings({}); }

  /// Everything that a program does with a card, once.
  void use_device() {
    const std::unique_ptr<Device> device = open_device("hip:0", library_);
    const DeviceBuffer buffer = device->allocate(4096, "a test");
    const std::array<int, 4> sent{1, 2, 3, 4};
    std::array<int, 4> received{};
    Uploader uploader(*device, 8);
    uploader.copy(buffer.data(), reinterpret_cast<const std::byte*>(sent.data()), sizeof sent, nullptr);
    uploader.finish();
    Stream& stream = device->stream();
    const Kernel<int> kernel("a", "add");
    kernel.launch(stream, {}, 1);
    Graph graph = stream.capture([&] { kernel.launch(stream, {}, 2); });
    stream.launch(graph);
    Event from(*device);
    Event to(*device);
    stream.record(from);
    stream.record(to);
    stream.wait(to);
    to.synchronize();
    static_cast<void>(to.finished());
    static_cast<void>(Event::elapsed_seconds(from, to));
    device->download(received.data(), buffer.data(), sizeof received);
    if (received != sent) {
      throw Error("the bytes are wrong");
    }
  }

  TemporaryFolder rocm_;
  TemporaryFolder objects_;
  KernelLibrary library_;
  FakeHip* fake_ = nullptr;
};

TEST_F(HipDriverTest, finds_both_devices_and_knows_the_processors_one) {
  const RuntimeReport report = find_runtimes()[0];
  EXPECT_EQ(report.version, "7.1.5");
  EXPECT_EQ(report.problem, "");
  ASSERT_EQ(report.devices.size(), 2);
  EXPECT_EQ(report.devices[0].architecture, "gfx1100");
  EXPECT_FALSE(report.devices[0].integrated);
  EXPECT_TRUE(report.devices[1].integrated) << "HIP 5 says of every device that it is not";
}

TEST_F(HipDriverTest, a_failure_of_any_call_is_one_line_and_leaves_nothing) {
  use_device();
  EXPECT_TRUE(fake_->nothing_left());
  const int calls = fake_->calls;
  EXPECT_GT(calls, 60);
  int errors = 0;
  for (int failing = 1; failing <= calls; ++failing) {
    *fake_ = FakeHip();
    fake_->fail_at = failing;
    set_rocm_surroundings({.folders = {rocm_.path()}, .python_prefixes = {}, .settings = {}});
    const std::string error = error_of([&] { use_device(); });
    errors += error != "no error" ? 1 : 0;
    EXPECT_THAT(error, Not(HasSubstr("\n"))) << "call " << failing;
    EXPECT_THAT(error, testing::AnyOf("no error", HasSubstr("hip"))) << "call " << failing << " is not named";
    EXPECT_TRUE(fake_->nothing_left()) << "call " << failing << ": " << error;
  }
  EXPECT_GT(errors, calls / 2) << "others are questions whose answer can be done without, or free what is left";
}

TEST_F(HipDriverTest, cards_may_access_the_memory_of_each_other) {
  objects_.write("gfx1151/a.hsaco",
                 "\x7f"
                 "ELF code");
  library_ = KernelLibrary::from_folder(objects_.path());
  const std::unique_ptr<Device> first = open_device("hip:0", library_);
  const std::unique_ptr<Device> second = open_device("hip:1", library_);
  const std::array devices{first.get(), second.get()};
  for (int time = 0; time < 2; ++time) {  // what is enabled already stays so
    EXPECT_EQ(enable_peer_access(devices), "");
    EXPECT_EQ(fake_->peers, (std::set<std::pair<int, int>>{{0, 1}, {1, 0}}));
  }
  fake_->reaches_peers = false;
  EXPECT_EQ(enable_peer_access(devices), "hip:0 can't access the memory of hip:1");
}

TEST_F(HipDriverTest, memory_that_other_cards_write_is_in_no_cache_or_the_hosts) {
  const std::unique_ptr<Device> device = open_device("hip:0", library_);
  {
    PeerBuffer own(*device, PeerBuffer::Place::device, 5000);
    EXPECT_EQ(fake_->uncached, 1);
    EXPECT_EQ(fake_->memory.count(own.data()), 1u);
    own.data()[4999] = std::byte{7};
    own.clear();
    EXPECT_EQ(own.data()[4999], std::byte{0});
    const PeerBuffer of_host(*device, PeerBuffer::Place::host, 5000);
    EXPECT_EQ(fake_->pinned.count(of_host.data()), 1u);
    PeerFlag flag(*device);
    flag.set(1);
    EXPECT_EQ(*flag.address(), 1u);
    EXPECT_EQ(fake_->pinned.count(const_cast<std::uint32_t*>(flag.address())), 1u);
  }
  EXPECT_TRUE(fake_->memory.empty());
}

TEST_F(HipDriverTest, variables_that_hide_a_device_are_named) {
  set_rocm_surroundings({.folders = {rocm_.path()}, .python_prefixes = {}, .settings = {"HSA_OVERRIDE_GFX_VERSION=10.3.0"}});
  EXPECT_THAT(error_of([&] { open_device("hip:1", library_); }),
              testing::EndsWith("the next build embeds them; HSA_OVERRIDE_GFX_VERSION=10.3.0 set"));
  EXPECT_THAT(error_of([&] { open_device("hip:7", library_); }),
              testing::EndsWith("hip:1 (Fake Graphics, gfx1151); HSA_OVERRIDE_GFX_VERSION=10.3.0 set"));
}

}  // namespace
}  // namespace rocmforge
