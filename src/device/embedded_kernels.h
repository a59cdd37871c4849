#pragma once

#include <cstddef>
#include <span>

namespace rocmforge {

/// A code object that was compiled into this program.
struct EmbeddedKernel {
  const char* architecture;  ///< "gfx1100", "sm_90a"
  const char* object;        ///< the kernel source's name: "elementwise"
  const std::byte* begin;
  const std::byte* end;
};

/// All of them. Defined by the source that the build generates from its code objects, or by embedded_kernels_none.cpp when
/// it has none; exactly one of the two is compiled.
std::span<const EmbeddedKernel> embedded_kernels();

}  // namespace rocmforge
