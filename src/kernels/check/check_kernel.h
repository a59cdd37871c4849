#pragma once

#include "kernels/launch/gpu_kernel.h"

namespace rocmforge {

/// The name and priority of the plain kernels. `Interface`: what an operation's kernels implement.
template <class Interface>
class CheckKernel : public GpuKernel<Interface> {
 public:
  using GpuKernel<Interface>::GpuKernel;
  [[nodiscard]] std::string_view name() const override { return "check"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::check; }
};

/// A plain kernel that supports every spec that check_spec() accepts.
template <class Op>
class AnyCheckKernel : public CheckKernel<typename KernelInterfaceOf<Op>::type> {
 public:
  using CheckKernel<typename KernelInterfaceOf<Op>::type>::CheckKernel;
  [[nodiscard]] Support supports(const typename Op::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }
};

}  // namespace rocmforge
