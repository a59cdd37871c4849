#pragma once

#include <fmt/format.h>

#include <string>

#include "ops/registry.h"

namespace rocmforge::amd {

/// Whether this folder's kernels are compiled for the device.
inline Support check_architecture(const DeviceInfo& device) {
  if (const std::string& name = device.architecture;
      !name.starts_with("gfx11") && !name.starts_with("gfx12") && name != "gfx942" && name != "gfx90a") {
    return Support::no(fmt::format("{} is none of gfx11, gfx12, gfx942 and gfx90a", name));
  }
  return Support::yes();
}

}  // namespace rocmforge::amd
