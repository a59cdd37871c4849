#pragma once

#include <string_view>
#include <vector>

#include "device/device.h"

namespace rocmforge {

/// The values in memory of the device, which an error for lack of it calls `purpose`.
template <class T>
DeviceBuffer placed(Device& device, const std::vector<T>& values, std::string_view purpose) {
  DeviceBuffer buffer = device.allocate(values.size() * sizeof(T), purpose);
  device.upload(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

}  // namespace rocmforge
