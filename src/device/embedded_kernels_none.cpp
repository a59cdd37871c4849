#include "device/embedded_kernels.h"

namespace rocmforge {

std::span<const std::byte> embedded_kernel_archive() { return {}; }

}  // namespace rocmforge
