#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace rocmforge {

/// The archive of GPU code objects (kernel_archive.h) that was built into this program; empty when there is none. Defined by
/// the source that the build generates around the archive, or by embedded_kernels_none.cpp; exactly one of the two is
/// compiled.
std::span<const std::byte> embedded_kernel_archive();

/// The stamp of the kernel sources that this program was built from (cmake/kernels.cmake): an archive with another one holds
/// code objects whose arguments and layouts may differ from what this program passes to them.
std::string_view kernel_stamp();

}  // namespace rocmforge
