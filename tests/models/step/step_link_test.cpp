// In which order the streams of two devices hand rows on, and what arrives.

#include "models/step/step_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "device/fake_driver.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using Bytes = std::vector<std::byte>;
using Route = StepLink::Route;

/// A fake GPU and its calls.
struct FakeGpu {
  explicit FakeGpu(const TemporaryFolder& kernels)
      : device(std::make_unique<FakeDriver>(log), KernelLibrary::from_folder(kernels.path())) {}
  std::shared_ptr<FakeDriver::Log> log = std::make_shared<FakeDriver::Log>();
  Device device;
};

struct FakePair {
  FakePair() {
    kernels.write("gfx1100/any.hsaco",
                  "\x7f"
                  "ELF code");
    first = std::make_unique<FakeGpu>(kernels);
    second = std::make_unique<FakeGpu>(kernels);
  }
  TemporaryFolder kernels{};
  std::unique_ptr<FakeGpu> first, second;
};

Bytes numbers(std::size_t count, int first) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  }
  return bytes;
}

/// Two arrays from `from` to `to`, several times.
void expect_arrival(Device& from, Device& to, Route route) {
  StepLink link(from, to, 48, route);
  for (const int time : {0, 50, 100}) {
    Bytes rows = numbers(32, time);
    Bytes more = numbers(16, time + 32);
    Bytes taken_rows(32);
    Bytes taken_more(16);
    link.send({{rows.data(), 32}, {more.data(), 16}});
    rows.assign(32, std::byte{0});  // the sender goes on
    link.receive({{taken_rows.data(), 32}, {taken_more.data(), 16}});
    EXPECT_EQ(taken_rows, numbers(32, time));
    EXPECT_EQ(taken_more, more);
  }
}

TEST(StepLink, WhatIsSentArrivesOnBothRoutes) {
  for (const Route route : {Route::peer, Route::host}) {
    const FakePair gpus;
    expect_arrival(gpus.first->device, gpus.second->device, route);
    Device a;
    Device b;
    expect_arrival(a, b, route);
  }
}

/// The sender waits until what it sent before is taken, the receiver until it is sent; the host for neither.
TEST(StepLink, StreamsWaitForEachOtherAndTheHostForNone) {
  for (const Route route : {Route::peer, Route::host}) {
    const FakePair gpus;
    StepLink link(gpus.first->device, gpus.second->device, 8, route);
    gpus.first->log->calls.clear();
    gpus.second->log->calls.clear();
    Bytes rows(8);
    link.send({{rows.data(), 8}});
    const bool peer = route == Route::peer;
    EXPECT_THAT(gpus.first->log->calls, ::testing::ElementsAre("wait", peer ? "copy_on_device" : "copy_to_host", "record"));
    EXPECT_TRUE(gpus.second->log->calls.empty());
    link.receive({{rows.data(), 8}, {nullptr, 0}});
    EXPECT_THAT(gpus.second->log->calls,
                ::testing::ElementsAre("wait", peer ? "copy_on_device" : "copy_to_device", "record"));
    EXPECT_EQ(gpus.first->log->calls.size(), 3u);
  }
}

TEST(StepLink, TheBoxLiesWhereTheRouteSays) {
  const FakePair gpus;
  const std::size_t before = gpus.second->device.allocated_bytes();
  {
    const StepLink link(gpus.first->device, gpus.second->device, 4096, Route::peer);
    EXPECT_EQ(gpus.second->device.allocated_bytes() - before, 4096u);
    EXPECT_TRUE(gpus.first->log->pinned.empty());
  }
  const StepLink link(gpus.first->device, gpus.second->device, 4096, Route::host);
  EXPECT_EQ(gpus.second->device.allocated_bytes(), before);
  EXPECT_EQ(gpus.first->log->pinned.size(), 1u);
}

}  // namespace
}  // namespace rocmforge
