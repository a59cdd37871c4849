#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "device/peers.h"
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

/// GPUs for ranks: emulated ones, or the first real ones of the kind that ROCMFORGE_TEST_DEVICE names ("cuda"). Empty where
/// there are not so many, with the reason in `problem`.
inline std::vector<std::unique_ptr<Device>> open_test_devices(std::size_t count, std::string& problem) {
  constexpr std::string_view emulated = "emulated:";
  std::vector<std::unique_ptr<Device>> devices;
  const std::string wanted = environment("ROCMFORGE_TEST_DEVICE", "cpu");
  try {
    const KernelLibrary library = test_kernel_library();
    if (!wanted.starts_with(emulated)) {
      const std::string kind = wanted.substr(0, wanted.find(':'));
      if (kind != "hip" && kind != "cuda") {
        problem = "ROCMFORGE_TEST_DEVICE names no GPU";
        return {};
      }
      prepare_for_peers();
      for (std::size_t index = 0; index < count; ++index) {
        devices.push_back(open_device(kind + ":" + std::to_string(index), library));
      }
      return devices;
    }
#if ROCMFORGE_EMULATOR
    for (auto& driver : open_emulated_drivers(wanted.substr(emulated.size()), count)) {
      devices.push_back(std::make_unique<Device>(std::move(driver), library));
    }
#else
    problem = "this build has no emulator";
#endif
    return devices;
  } catch (const Error& error) {
    problem = error.what();
    return {};
  }
}

}  // namespace rocmforge::test
