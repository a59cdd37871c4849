#include "kernels/register_all.h"

#include "kernels/check/backend.h"
#include "kernels/launch/amd/backend.h"
#include "kernels/launch/cpu/backend.h"
#include "kernels/launch/hopper/backend.h"
#include "kernels/launch/portable/backend.h"
#include "kernels/launch/reference/backend.h"

namespace rocmforge {

void register_all_kernels(KernelRegistry& registry, Device* device) {
  const auto if_kind = [device](DeviceKind kind) {
    return device != nullptr && device->info().kind == kind ? device : nullptr;
  };
  register_reference_kernels(registry);
  register_cpu_kernels(registry);
  register_gpu_kernels(registry, DeviceKind::hip, if_kind(DeviceKind::hip));
  register_gpu_kernels(registry, DeviceKind::cuda, if_kind(DeviceKind::cuda));
  register_check_kernels(registry, DeviceKind::hip);
  register_check_kernels(registry, DeviceKind::cuda);
  register_amd_kernels(registry, if_kind(DeviceKind::hip));
  register_hopper_kernels(registry, if_kind(DeviceKind::cuda));
}

}  // namespace rocmforge
