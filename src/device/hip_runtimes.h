#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace rocmforge {

/// Which of the HIP runtimes on a machine to use. Distributions install old ones beside ROCm's own, and a runtime that is
/// older than a card finds no device.
struct HipChoice {
  std::string library;              ///< the file to open: of the first runtime with devices, else of the first at all
  std::vector<TriedRuntime> tried;  ///< each that could be opened, up to and including the chosen one
};

/// Opens and initialises one after another until one has devices. `names` are files or names that the loader resolves.
HipChoice choose_hip_runtime(std::span<const std::string> names);

/// The choice among hip_runtime_names(), made once in a process. Throws Error when no runtime can be opened.
const HipChoice& chosen_hip_runtime();

/// Every runtime that can be opened, tried in a child process that has `seconds` to answer.
std::vector<TriedRuntime> list_hip_runtimes(std::span<const std::string> names, int seconds);

/// "; HIP_VISIBLE_DEVICES=1 is set", of the variables that may explain why a device is missing or has another name.
std::string rocm_settings_text();

}  // namespace rocmforge
