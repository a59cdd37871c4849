#pragma once

#include <string_view>

#include "kernels/check/arguments/arguments.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// The name, device and priority of all reference kernels.
template <class Interface>
class ReferenceKernel : public Interface {
 public:
  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::reference; }
};

/// A reference kernel that supports every spec that check_spec() accepts.
template <class Op>
class AnyReference : public ReferenceKernel<typename KernelInterfaceOf<Op>::type> {
 public:
  [[nodiscard]] Support supports(const typename Op::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }
};

}  // namespace rocmforge
