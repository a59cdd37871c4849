#include "kernels/launch/cpu/isa.h"

#include <fmt/format.h>

namespace rocmforge {

std::span<const CpuBodies> cpu_bodies() {
  static const CpuBodies bodies[] = {
      {CpuIsa::generic, "cpu_generic", KernelPriority::portable, generic::body_table},
#ifdef ROCMFORGE_HAS_neon
      {CpuIsa::neon, "cpu_neon", KernelPriority::family, neon::body_table},
#endif
#ifdef ROCMFORGE_HAS_avx2
      {CpuIsa::avx2, "cpu_avx2", KernelPriority::family, avx2::body_table},
#endif
#ifdef ROCMFORGE_HAS_avx512
      {CpuIsa::avx512, "cpu_avx512", KernelPriority::specialised, avx512::body_table},
#endif
  };
  return bodies;
}

Support check_isa(const CpuBodies& bodies, const DeviceInfo& device) {
  if (device.cpu_isa < bodies.isa) {
    return Support::no(fmt::format("needs {}, this processor has {}", name(bodies.isa), name(device.cpu_isa)));
  }
  return Support::yes();
}

}  // namespace rocmforge
