#pragma once

#include <string>

#include "device/device_info.h"

namespace rocmforge {

/// A GPU as `--device` names it: "cuda:1".
std::string device_label(const DeviceInfo& gpu);

}  // namespace rocmforge
