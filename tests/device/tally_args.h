#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// Of the kernels `tally` and `tally_without_fence`, which tell whether a missing fence shows.
struct TallyArgs {
  float* parts;         // [work-groups]
  std::uint32_t* done;  // one zero
  float* sum;           // of 1, 2, ... by the work-group that is done last
};

}  // namespace rocmforge::gpu
