#include "device/embedded_kernels.h"

namespace rocmforge {

std::span<const EmbeddedKernel> embedded_kernels() { return {}; }

}  // namespace rocmforge
