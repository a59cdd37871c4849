#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "checks/cases.h"
#include "checks/layer_products.h"

namespace rocmforge {

/// The operation of these cases in reports.
inline constexpr std::string_view product_groups_operation = "product groups";

/// A case for each choice of work-groups a unit in products of one token: a layer's products must leave the same bits as
/// with the first choice, and are timed. `set` sets the choice of a device.
std::vector<KernelCase> product_group_cases(const LayerProducts& layer, std::span<const double> choices,
                                            const std::function<void(Device& device, double a_unit)>& set);

}  // namespace rocmforge
