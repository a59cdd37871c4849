#pragma once

#include <fmt/format.h>

#include "ops/registry.h"

namespace rocmforge::hopper {

/// Whether Hopper's kernels are compiled for the device.
inline Support check_architecture(const DeviceInfo& device) {
  return device.architecture.starts_with("sm_90") ? Support::yes()
                                                  : Support::no(fmt::format("{} is not sm_90", device.architecture));
}

}  // namespace rocmforge::hopper
