#pragma once

#include <string_view>
#include <vector>

#include "checks/cases.h"
#include "checks/layer_products.h"

namespace rocmforge {

/// The operation of these cases in reports.
inline constexpr std::string_view merged_launches_operation = "merged launches";

/// For each layer a case: every product is compared with an oracle's; then the layer runs again and again, each time on what
/// it left behind, with a launch for each product and with merged ones (Stream::allow_merging): alone, beside other work on
/// the device, and replayed from a graph. All must leave the same bits. CallResult::seconds is the time of a layer with
/// merged launches, seconds_apart that with a launch for each product. `layers` name kernels of `registry`.
std::vector<KernelCase> merged_launch_cases(const std::vector<LayerProducts>& layers, const KernelRegistry& registry,
                                            const DeviceInfo& device);

}  // namespace rocmforge
