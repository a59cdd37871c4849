#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace rocmforge {

// Each vendor's half of find_runtimes() and open_driver(). A search fills the report until it fails; the failure is thrown
// as Error.
void find_cuda(RuntimeReport& report);
void find_hip(RuntimeReport& report);
std::unique_ptr<Driver> open_cuda_driver(int index);
std::unique_ptr<Driver> open_hip_driver(int index);

/// The order in which "auto" takes devices of one runtime: cards before integrated GPUs, then by units and memory.
std::vector<DeviceInfo> best_first(std::vector<DeviceInfo> devices);
/// Whether a GPU is one of the smallest of processors, which "auto" does not take.
bool drives_displays_alone(const DeviceInfo& device);

}  // namespace rocmforge
