#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace rocmforge {

/// The archive of GPU code objects (kernel_archive.h) that was built into this program; empty when there is none. It is
/// defined by the source that the build generates around the archive, or by embedded_kernels_none.cpp; exactly one of the
/// two is compiled.
std::span<const std::byte> embedded_kernel_archive();

/// The stamp of the kernel sources that this program was built from (cmake/kernels.cmake). The code objects of an archive
/// with another stamp may expect other arguments and layouts than this program passes.
std::string_view kernel_stamp();

}  // namespace rocmforge
