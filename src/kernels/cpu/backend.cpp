#include "kernels/cpu/backend.h"

namespace rocmforge {

void register_cpu_kernels(KernelRegistry&) {}

}  // namespace rocmforge
