#pragma once

#include <array>

#include "device/device.h"

namespace rocmforge::amd {

/// How many work-groups a launch of products of one token may have for each of the device's units
/// (DeviceInfo::compute_units). Results have the same bits with each. Which is fastest differs from card to card.
inline constexpr std::array product_group_choices = {1.0, 1.5, 2.0};

/// Of launches on this device from now on: one of product_group_choices, at first 1.
void set_product_groups(Device& device, double a_unit);
[[nodiscard]] double product_groups(Device& device);

}  // namespace rocmforge::amd
