#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "device/device.h"
#include "device/runtime_library.h"
#include "error_of.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using test::error_of;
using testing::EndsWith;
using testing::HasSubstr;

struct OneCodeApi {
  static std::string describe(int code) { return "code " + std::to_string(code); }
};

TEST(RuntimeLibrary, opens_the_first_that_is_there_and_finds_its_functions) {
  const std::array names{"libnowhere.so.9", "libm.so.6"};
  const RuntimeLibrary library(names);
  EXPECT_THAT(library.path(), EndsWith("libm.so.6"));
  const Entry<int(double)> exponent(library, "ilogb");
  EXPECT_EQ(exponent(32.0), 5);
  EXPECT_EQ(error_of([&] { call(OneCodeApi(), exponent, 32.0); }), "ilogb: code 5");
  EXPECT_EQ(error_of([&] { call(OneCodeApi(), exponent, 1.0); }), "no error");
  EXPECT_EQ(error_of([&] { Entry<int(double)>(library, "no_such_function"); }),
            library.path() + " has no function no_such_function: it is too old");
  EXPECT_FALSE((Entry<int(double)>(library, "no_such_function", Presence::optional)));
}

TEST(RuntimeLibrary, says_why_none_could_be_opened) {
  const std::array one{"libnowhere.so.9"};
  EXPECT_EQ(error_of([&] { RuntimeLibrary library(one); }),
            "libnowhere.so.9: cannot open shared object file: No such file or directory");
  const std::array two{"libnowhere.so.9", "libnowhere.so"};
  EXPECT_EQ(error_of([&] { RuntimeLibrary library(two); }),
            "libnowhere.so.9, libnowhere.so: cannot open shared object file: none of these exists");
  const TemporaryFolder folder;
  folder.write("libbroken.so", "text");
  const std::string broken = (folder.path() / "libbroken.so").string();
  const std::array names{broken.c_str(), "libnowhere.so"};
  EXPECT_THAT(error_of([&] { RuntimeLibrary library(names); }), HasSubstr("libbroken.so: "))
      << "a library that is there and cannot be loaded is the one to hear of";
}

TEST(CheckLaunch, names_the_limit_that_is_passed) {
  DeviceInfo device;
  device.name = "GPU";
  device.shared_memory_bytes = 65536;
  LoadedFunction function;
  function.info = {.static_shared_bytes = 1024, .max_threads = 256};
  function.argument_bytes = 16;
  const auto refusal = [&](const LaunchShape& shape, std::size_t bytes) {
    return error_of([&] { check_launch(function, device, shape, bytes); });
  };
  EXPECT_EQ(refusal({{1, 1, 1}, {256, 1, 1}, 64512}, 16), "no error");
  EXPECT_EQ(refusal({{1, 1, 1}, {64, 64, 1}, 0}, 16), "4096 threads in a work-group, the kernel takes at most 256");
  EXPECT_EQ(refusal({{1, 1, 1}, {64, 1, 1}, 64513}, 16),
            "65537 bytes of shared memory (1024 of them static), GPU has 65536 for a work-group");
  EXPECT_EQ(refusal({}, 24), "24 bytes of arguments, the code object expects 16");
  function.argument_bytes = 0;  // not known
  EXPECT_EQ(refusal({}, 24), "no error");
}

TEST(FindRuntimes, reports_both_whatever_is_missing) {
  const std::vector<RuntimeReport> reports = find_runtimes();
  ASSERT_EQ(reports.size(), 2);
  EXPECT_EQ(reports[0].kind, DeviceKind::hip);
  EXPECT_EQ(reports[1].kind, DeviceKind::cuda);
  for (const RuntimeReport& report : reports) {
    EXPECT_FALSE(report.library.empty());
    EXPECT_NE(report.devices.empty(), report.problem.empty());
  }
}

TEST(OpenDevice, opens_the_cpu_and_refuses_what_is_no_device) {
  const KernelLibrary none;
  EXPECT_FALSE(open_device("cpu", none)->is_gpu());
  EXPECT_FALSE(open_device("auto", none)->is_gpu());
  EXPECT_EQ(open_device("cpu", none, CpuIsa::generic)->info().cpu_isa, CpuIsa::generic);
  for (const char* wanted : {"", "gpu", "cpu:0", "hip:", "hip:x", "cuda:-1", "cuda:1x", "HIP"}) {
    EXPECT_EQ(error_of([&] { open_device(wanted, none); }),
              std::string("unknown device: ") + wanted + " (use auto, cpu, hip, cuda, hip:N or cuda:N)");
  }
}

TEST(OpenDevice, says_why_a_gpu_cannot_be_had) {
  for (const RuntimeReport& report : find_runtimes()) {
    const std::string kind(name(report.kind));
    const std::string error = error_of([&] { open_device(kind, KernelLibrary()); });
    EXPECT_THAT(error, HasSubstr(report.devices.empty() ? report.problem : "there are no kernels for it")) << kind;
    const std::string far_off = error_of([&] { open_device(kind + ":99", KernelLibrary()); });
    EXPECT_THAT(far_off, HasSubstr(report.devices.empty() ? report.problem : "there is no device " + kind + ":99"));
    EXPECT_NE(error_of([&] { open_driver(report.kind, 99); }), "no error");
  }
}

}  // namespace
}  // namespace rocmforge
