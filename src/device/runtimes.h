#pragma once

#include <memory>

#include "device/device.h"

namespace rocmforge {

// Each vendor's half of find_runtimes() and open_driver(). A search fills the report until it fails; the failure is thrown
// as Error.
void find_cuda(RuntimeReport& report);
void find_hip(RuntimeReport& report);
std::unique_ptr<Driver> open_cuda_driver(int index);
std::unique_ptr<Driver> open_hip_driver(int index);

}  // namespace rocmforge
