#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "base/thread_pool.h"
#include "kernels/register_all.h"
#include "test_device.h"

namespace rocmforge::test {

/// The device that ROCMFORGE_TEST_DEVICE names, which may be an emulated GPU: arrays in its memory, work on its streams, and
/// the plain kernels of the device as oracle.
class DeviceCases : public testing::Test {
 protected:
  void SetUp() override {
    if (opened_.device == nullptr) {
      GTEST_SKIP() << opened_.problem;
    }
    register_all_kernels(registry_, opened_.device.get());
  }
  [[nodiscard]] Device& device() { return *opened_.device; }

  TestDevice opened_ = open_test_device();
  ThreadPool pool_{2};
  KernelRegistry registry_;
};

}  // namespace rocmforge::test
