#pragma once

#include <memory>
#include <string>
#include <vector>

#include "test_device.h"

namespace rocmforge::testing {

/// Four, three or two GPUs of the kind that ROCMFORGE_TEST_DEVICE names, as many as there are, opened once for the whole
/// program. None where it names no GPU, or there is only one: `problem` tells.
struct OpenedDevices {
  std::string problem;
  std::vector<std::unique_ptr<Device>> devices;

  OpenedDevices() {
    for (std::size_t count = 4; count >= 2 && devices.empty(); --count) {
      devices = test::open_test_devices(count, problem);
    }
  }
  [[nodiscard]] std::vector<Device*> pair() const { return {devices.at(0).get(), devices.at(1).get()}; }
};

inline OpenedDevices& opened_devices() {
  static OpenedDevices opened;
  return opened;
}

}  // namespace rocmforge::testing
