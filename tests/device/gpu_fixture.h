#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "device/device.h"

namespace rocmforge {

/// Code objects for tests: those of the folder in ROCMFORGE_KERNEL_DIR, else the embedded ones.
KernelLibrary kernel_library_for_tests();

/// Tests on a real GPU: the first that has kernels. All tests of a program share one Device, and programs wait for each
/// other (a file is locked while the device is open). Without a GPU each test is skipped and says why.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override;
  [[nodiscard]] static Device& device();
};

}  // namespace rocmforge
