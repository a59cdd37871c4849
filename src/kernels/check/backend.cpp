#include "kernels/check/backend.h"

#include "kernels/check/kernels.h"

namespace rocmforge {

void register_check_kernels(KernelRegistry& registry, DeviceKind kind) {
  registry.add<Attention>(make_check_attention(kind));
  registry.add<Matmul>(make_check_matmul(kind));
}

}  // namespace rocmforge
