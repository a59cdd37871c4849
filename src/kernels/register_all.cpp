#include "kernels/register_all.h"

#include "kernels/cpu/backend.h"
#include "kernels/gpu/backend.h"
#include "kernels/hopper/backend.h"
#include "kernels/reference/backend.h"

namespace rocmforge {

void register_all_kernels(KernelRegistry& registry) {
  register_reference_kernels(registry);
  register_cpu_kernels(registry);
  register_gpu_kernels(registry, DeviceKind::hip);
  register_gpu_kernels(registry, DeviceKind::cuda);
  register_hopper_kernels(registry);
}

}  // namespace rocmforge
