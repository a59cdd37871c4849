#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// The arguments of the kernels `tally` and `tally_without_fence`, which test whether a missing fence is detected.
struct TallyArgs {
  float* parts;         // [work-groups]
  std::uint32_t* done;  // one zero
  float* sum;           // of 1, 2, ... by the work-group that is done last
};

}  // namespace rocmforge::gpu
