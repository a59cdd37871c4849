#pragma once

#include <memory>

#include "device/device.h"

namespace rocmforge {

// Each vendor's half of find_runtimes() and open_driver(). Reports are filled as far as the search came; what stops it is
// thrown as Error.
void find_cuda(RuntimeReport& report);
void find_hip(RuntimeReport& report);
std::unique_ptr<Driver> open_cuda_driver(int index);
std::unique_ptr<Driver> open_hip_driver(int index);

}  // namespace rocmforge
