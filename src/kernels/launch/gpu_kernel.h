#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "device/driver.h"
#include "kernels/check/arguments/arguments.h"
#include "ops/kernel_registry.h"

namespace rocmforge {

/// The name, device and priority of all portable kernels. One object serves one kind of device.
template <class Interface>
class GpuKernel : public Interface {
 public:
  explicit GpuKernel(DeviceKind kind) : kind_(kind) {}
  [[nodiscard]] std::string_view name() const override { return "gpu"; }
  [[nodiscard]] DeviceKind device() const override { return kind_; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }

 private:
  DeviceKind kind_;
};

/// A portable kernel that supports every spec that check_spec() accepts.
template <class Op>
class PortableGpuKernel : public GpuKernel<OpKernel<Op>> {
 public:
  using GpuKernel<OpKernel<Op>>::GpuKernel;
  [[nodiscard]] Support supports(const typename Op::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }
};

/// `groups` work-groups of `threads`, but at most 2^20, which any device can start: kernels walk over the rest in strides of
/// the grid.
inline LaunchShape launch_of(std::int64_t groups, std::uint32_t threads) {
  constexpr std::int64_t most_groups = 1 << 20;
  LaunchShape shape;
  shape.grid[0] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(groups, 1, most_groups));
  shape.block[0] = threads;
  return shape;
}

/// The same with a grid of `groups` by `rows`; NVIDIA limits the second dimension to 65,535.
inline LaunchShape launch_of(std::int64_t groups, std::int64_t rows, std::uint32_t threads) {
  constexpr std::int64_t most_rows = 65535;
  LaunchShape shape = launch_of(std::min<std::int64_t>(groups, 1 << 15), threads);
  shape.grid[1] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows, 1, most_rows));
  return shape;
}

/// Threads for `items` of one row, whole waves of either size: a power of two from 64 to `most`.
inline std::uint32_t threads_for(std::int64_t items, std::uint32_t most) {
  std::uint32_t threads = 64;
  while (threads < most && threads < items) {
    threads *= 2;
  }
  return threads;
}

}  // namespace rocmforge
