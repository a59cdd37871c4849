#pragma once

#include <span>

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Registers every kernel of this build. `device` is the device that the kernels will run on; it must be open whenever a
/// kernel is chosen or run. With it, kernels that use a vendor's library are chosen only if trial products were right on
/// that device; without it, they are chosen if the library can be opened.
void register_all_kernels(KernelRegistry& registry, Device* device = nullptr);

/// Registers the scalar kernels, the definition of every operation, alone.
void register_reference_kernels(KernelRegistry& registry);
/// The choices of work-groups a unit that AMD's launches of products of one token have (kernels/matmul/amd/product_groups.h).
std::span<const double> product_group_choices();
/// One of them, for launches on this device from now on; the first is in use before.
void choose_product_groups(Device& device, double a_unit);

}  // namespace rocmforge
