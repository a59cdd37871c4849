#pragma once

#include <fmt/format.h>

#include <string_view>

#include "ops/registry.h"

namespace rocmforge::amd {

/// Whether AMD's kernels are compiled for the device: the architectures that FAMILIES of tools/build/build_kernels.py names
/// for them.
inline Support check_architecture(const DeviceInfo& device) {
  if (const std::string_view name = device.architecture_name();
      !name.starts_with("gfx11") && !name.starts_with("gfx12") && name != "gfx90a" && name != "gfx942" && name != "gfx950") {
    return Support::no(fmt::format("{} is none of gfx11, gfx12, gfx90a, gfx942 and gfx950", name));
  }
  return Support::yes();
}

/// Whether matvec_chain is for the device: on CDNA a chain takes longer than its launches alone, by the cost model.
inline bool merges_launches(const DeviceInfo& device) { return check_architecture(device).ok && device.wave_size == 32; }

}  // namespace rocmforge::amd
