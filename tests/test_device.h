#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "device/device.h"
#if ROCMFORGE_EMULATOR
#include "emulator/emulated_driver.h"
#endif

namespace rocmforge::test {

/// The device that ROCMFORGE_TEST_DEVICE names: "cpu" (the default), "auto", "cuda", "hip:1", or "emulated:gfx1100". GPU
/// kernels come from the folder ROCMFORGE_KERNEL_DIR, else from the program. Opened once a program.
struct TestDevice {
  std::unique_ptr<Device> device;  ///< null when the device is missing
  std::string problem;             ///< why it is missing
  std::string wanted;
  bool emulated = false;

  /// Whether this is a real GPU, which is fast enough for all tests, the largest shapes included.
  [[nodiscard]] bool real_gpu() const { return device != nullptr && device->is_gpu() && !emulated; }
};

inline std::string environment(const char* name, std::string_view otherwise = "") {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::string(otherwise);
}

inline KernelLibrary test_kernel_library() {
  const std::string folder = environment("ROCMFORGE_KERNEL_DIR");
  return folder.empty() ? KernelLibrary::embedded() : KernelLibrary::from_folder(folder);
}

/// Never throws: `problem` has the reason for a missing device.
inline TestDevice open_test_device() {
  constexpr std::string_view emulated = "emulated:";
  TestDevice result;
  result.wanted = environment("ROCMFORGE_TEST_DEVICE", "cpu");
  result.emulated = result.wanted.starts_with(emulated);
  try {
    if (result.wanted == "cpu") {
      result.device = std::make_unique<Device>();
    } else if (!result.emulated) {
      result.device = open_device(result.wanted, test_kernel_library());
    } else {
#if ROCMFORGE_EMULATOR
      const KernelLibrary library = test_kernel_library();
      result.device = std::make_unique<Device>(open_emulated_driver(result.wanted.substr(emulated.size())), library);
#else
      result.problem = "this build has no emulator";
#endif
    }
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

}  // namespace rocmforge::test
