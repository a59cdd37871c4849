#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "checks/cases.h"
#include "device/device.h"

namespace rocmforge::app {

/// What a report says about a GPU beside its name: runtime, driver and firmware, features, memory, link, and the variables
/// of the environment that hide or rename devices, and the compilers of its code objects. No path, host or serial number.
/// `runtimes`: all that were found, of HIP. `kernels`: where the device's objects come from.
nlohmann::ordered_json describe_gpu_machine(Device& device, const KernelLibrary& kernels,
                                            const std::vector<TriedRuntime>& runtimes);

/// The checks of a GPU's runtime and instructions as cases, before those of kernels. None on a CPU.
std::vector<KernelCase> device_cases(const DeviceInfo& device);

/// Whether an operation of a report is one of these checks, or that of merged launches or of work-groups a unit: it names no
/// kernel that a plan can avoid.
bool is_device_check(std::string_view operation);

}  // namespace rocmforge::app
