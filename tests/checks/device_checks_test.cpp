// The checks of a device: on the device of the tests, and over a runtime whose kernels do nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "check/check_device.h"
#include "kernels/check/device_checks.h"
#include "kernels/register_all.h"
#include "temporary_folder.h"
#include "test_device.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

std::vector<DeviceCheck> all_checks(const DeviceInfo& device) {
  std::vector<DeviceCheck> all = runtime_checks(device);
  for (DeviceCheck& one : instruction_checks(device)) {
    all.push_back(std::move(one));
  }
  return all;
}

/// ROCMFORGE_TEST_DEVICE may name an emulated GPU.
TEST(DeviceChecks, TheTestDeviceIsRight) {
  const test::TestDevice opened = test::open_test_device();
  if (opened.device == nullptr || !opened.device->is_gpu()) {
    GTEST_SKIP() << "no GPU: " << opened.problem;
  }
  for (const DeviceCheck& one : all_checks(opened.device->info())) {
    const DeviceCheckResult found = one.run(*opened.device);
    EXPECT_EQ(found.problem, "") << one.step << " " << one.name << ", " << one.shape;
    EXPECT_GT(found.elements, 0) << one.name;
  }
}

/// The card of tests/device/fake_hip_runtime.cpp: it copies and fills, and its kernels do nothing.
class IdleCard : public testing::Test {
 protected:
  IdleCard() {
    std::filesystem::create_directories(rocm_.path() / "lib");
    std::filesystem::create_symlink(ROCMFORGE_FAKE_HIP_RUNTIME, rocm_.path() / "lib/libamdhip64.so");
    objects_.write("gfx1100/instructions.hsaco", std::string_view("\x7f"
                                                                  "ELF code\0Some clang version 19.1.7 (3)\0",
                                                                  40));
    set_rocm_surroundings({.folders = {rocm_.path()}, .python_prefixes = {}, .settings = {"HIP_VISIBLE_DEVICES=0"}});
    device_ = open_device("hip:0", KernelLibrary::from_folder(objects_.path()));
  }
  ~IdleCard() override {
    device_.reset();
    set_rocm_surroundings({});
  }

  TemporaryFolder rocm_;
  TemporaryFolder objects_;
  std::unique_ptr<Device> device_;
};

TEST_F(IdleCard, KernelsThatDoNothingFailEveryCheckOfResults) {
  DeviceInfo small = device_->info();
  small.vendor_runtime = false;  // few repetitions
  for (const DeviceCheck& one : all_checks(small)) {
    const DeviceCheckResult found = one.run(*device_);
    const bool only_copies = one.name == "copies" || one.name == "fills";
    EXPECT_EQ(found.problem.empty(), only_copies)
        << one.step << " " << one.name << ", " << one.shape << ": " << found.problem;
    if (!only_copies) {
      EXPECT_THAT(found.problem, HasSubstr(" numbers are wrong, the first is number ")) << one.name;
    }
  }
}

TEST_F(IdleCard, TheReportDescribesTheMachine) {
  const auto machine = app::describe_gpu_machine(
      *device_, KernelLibrary::from_folder(objects_.path()),
      {{.library = "/home/name/rocm/libamdhip64.so.7", .version = "7.1.5", .devices = 1, .problem = ""},
       {.library = "/home/name/old/libamdhip64.so.5",
        .version = "5.2.1",
        .devices = 0,
        .problem = "/home/name/old/libamdhip64.so.5 has no function hipInit: it is too old"}});
  EXPECT_EQ(machine.at("runtime"), "HIP 7.1.5");
  EXPECT_EQ(machine.at("runtimes"), "7.1.5: 1 device; 5.2.1: libamdhip64.so.5 has no function hipInit: it is too old");
  EXPECT_EQ(machine.at("settings"), "HIP_VISIBLE_DEVICES=0");
  EXPECT_EQ(machine.at("kernels"), "gfx1100, Some clang version 19.1.7 (3)");
  EXPECT_THAT(machine.at("memory"), HasSubstr(" free"));
  EXPECT_EQ(machine.dump().find("/home"), std::string::npos) << machine.dump();
}

TEST_F(IdleCard, CasesComeFromTheSameList) {
  const auto cases = app::device_cases(device_->info());
  EXPECT_EQ(cases.size(), all_checks(device_->info()).size());
  for (const KernelCase& one : cases) {
    EXPECT_TRUE(app::is_device_check(one.operation)) << one.operation;
  }
  EXPECT_TRUE(app::device_cases(cpu_device_info()).empty());
}

}  // namespace
}  // namespace rocmforge
