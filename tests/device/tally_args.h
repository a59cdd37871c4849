#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// The arguments of the kernels `tally` and `tally_without_fence`, which test whether a missing fence is detected, and of
/// `tally_together`, which tests last_to_arrive.
struct TallyArgs {
  float* parts;         // [work-groups]; together: [work-groups, threads]
  std::uint32_t* done;  // one zero
  float* sum;           // of 1, 2, ... by the work-group that is done last; together: [threads], of that many ones
};

}  // namespace rocmforge::gpu
