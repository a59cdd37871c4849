#include "kernels/amd/backend.h"

#include "kernels/amd/matmul.h"

namespace rocmforge {

void register_amd_kernels(KernelRegistry& registry) { registry.add<Matmul>(make_amd_matmul()); }

}  // namespace rocmforge
