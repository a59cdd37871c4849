#pragma once

#include <span>
#include <string>

#include "device/device_info.h"
#include "kernels/launch/cpu/body/bodies.h"
#include "ops/registry.h"

namespace rocmforge {

/// The bodies of one instruction set, and the name and priority of the kernels made from them.
struct CpuBodies {
  CpuIsa isa;
  std::string_view kernel_name;  ///< "cpu_avx2"
  KernelPriority priority;
  const BodyTable& table;
};

/// The instruction sets in this build, weakest first.
std::span<const CpuBodies> cpu_bodies();

/// Refuses a device that lacks the instruction set.
Support check_isa(const CpuBodies& bodies, const DeviceInfo& device);

/// What all kernels made from bodies share: name, device, priority and the check of the instruction set.
template <class Interface>
class CpuKernel : public Interface {
 public:
  explicit CpuKernel(const CpuBodies& bodies) : bodies_(bodies) {}
  [[nodiscard]] std::string_view name() const override { return bodies_.kernel_name; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return bodies_.priority; }

 protected:
  [[nodiscard]] const BodyTable& body() const { return bodies_.table; }
  [[nodiscard]] Support check_device(const DeviceInfo& device) const { return check_isa(bodies_, device); }

 private:
  const CpuBodies& bodies_;
};

}  // namespace rocmforge
