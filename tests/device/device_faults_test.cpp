#include "device/device_faults.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "device/launch_trace.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

std::string said;

class DeviceFaults : public testing::Test {
 protected:
  ~DeviceFaults() override { on_device_fault(nullptr); }

  using Report = int (*)(std::uint32_t type, std::uint64_t address, std::uint32_t reasons);
  /// The fake runtime with the program's handler in it.
  static Report watched() {
    void* const runtime = ::dlopen(ROCMFORGE_FAKE_HSA, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(runtime, nullptr) << ::dlerror();
    EXPECT_TRUE(watch_amd_faults());
    return reinterpret_cast<Report>(::dlsym(runtime, "fake_hsa_event"));
  }
  /// Other tests of this process may have loaded ROCm's own runtime, in whose place the fake can't be.
  static void in_process_of_its_own(void (*test)()) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(end_after(test), testing::ExitedWithCode(0), "");
  }
  static void end_after(void (*test)()) {
    test();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
};

TEST_F(DeviceFaults, AddressReasonAndLaunchesAreOneLine) {
  launch_trace().note("matvec_packed");
  launch_trace().note("rms_norm");
  EXPECT_THAT(
      describe(DeviceFault{0x7f0012345000, 0x3}),
      testing::AllOf(HasSubstr("the GPU faulted at address 0x7f0012345000 (page not present, write to a read-only page); "
                               "launched last: "),
                     HasSubstr("matvec_packed, rms_norm")));
  EXPECT_THAT(describe(DeviceFault{0, 0x80000000u}), HasSubstr("(reset after a hang)"));
  EXPECT_THAT(describe(DeviceFault{0, 0x400}), HasSubstr("(reason 0x400)"));
  EXPECT_EQ(describe(DeviceFault{0, 1}).find('\n'), std::string::npos);
}

TEST_F(DeviceFaults, TheRuntimeReportsThemToTheHandler) {
  in_process_of_its_own([] {
    const Report report = watched();
    on_device_fault([](const std::string& line) { said = line; });
    EXPECT_NE(report(0, 0xabc000, 1), 0) << "a handler that returns leaves the rest to the runtime, which aborts";
    EXPECT_THAT(said, HasSubstr("address 0xabc000 (page not present)"));
    said.clear();
    EXPECT_NE(report(1, 0xabc000, 1), 0);
    EXPECT_EQ(said, "") << "another event has another content";
  });
}

TEST_F(DeviceFaults, WithoutAHandlerTheRuntimeActs) {
  in_process_of_its_own([] { EXPECT_NE(watched()(0, 1, 1), 0); });
}

TEST_F(DeviceFaults, AHandlerMayEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [] {
    const Report report = watched();
    on_device_fault([](const std::string& line) {
      static_cast<void>(std::fprintf(stderr, "%s\n", line.c_str()));
      std::_Exit(4);
    });
    report(0, 0xd000, 1);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(4), "faulted at address 0xd000");
}

}  // namespace
}  // namespace rocmforge
