#pragma once

#include <memory>
#include <string>
#include <vector>

#include "test_device.h"

namespace rocmforge::testing {

/// Two GPUs of the kind that ROCMFORGE_TEST_DEVICE names, opened once for the whole program. None where it names no GPU, or
/// there is only one: `problem` tells.
struct DevicePair {
  std::string problem;
  std::vector<std::unique_ptr<Device>> devices = test::open_test_devices(2, problem);

  [[nodiscard]] std::vector<Device*> addresses() const { return {devices.at(0).get(), devices.at(1).get()}; }
};

inline DevicePair& device_pair() {
  static DevicePair pair;
  return pair;
}

}  // namespace rocmforge::testing
