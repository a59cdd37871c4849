#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// The kernel whose outputs are right by definition: the device's own of KernelPriority::check, else the CPU's reference.
/// Null when neither supports `spec`.
template <class Op>
const typename KernelInterfaceOf<Op>::type* oracle_of(const KernelRegistry& registry, const typename Op::Spec& spec,
                                                      const DeviceInfo& device) {
  const typename KernelInterfaceOf<Op>::type* reference = nullptr;
  for (const auto& kernel : registry.all<Op>()) {
    if (kernel->device() == device.kind && kernel->priority() == KernelPriority::check &&
        kernel->supports(spec, device).ok) {
      return kernel.get();
    }
    if (kernel->device() == DeviceKind::cpu && kernel->priority() == KernelPriority::reference &&
        kernel->supports(spec, cpu_device_info()).ok) {
      reference = kernel.get();
    }
  }
  return reference;
}

/// The oracle that computes in the device's memory. Throws Error where there is none.
template <class Op>
const typename KernelInterfaceOf<Op>::type& oracle_on(const KernelRegistry& registry, const typename Op::Spec& spec,
                                                      const DeviceInfo& device) {
  const auto* const oracle = oracle_of<Op>(registry, spec, device);
  if (oracle == nullptr || oracle->device() != device.kind) {
    throw nobody_serves(Op::name, "an oracle for " + to_string(spec), {}, {});
  }
  return *oracle;
}

}  // namespace rocmforge
