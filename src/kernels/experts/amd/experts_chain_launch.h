#pragma once

#include "device/device.h"
#include "kernels/experts/amd/experts_args.h"

namespace rocmforge::amd {

/// The kernels of experts_packed.hip for a call that is a launch of its own.
[[nodiscard]] const Kernel<ExpertVectorArgs>& packed_expert_kernel(bool down);

/// One token's gate and up begin a launch, which the stream holds back; `down` joins it, and then a dense call may
/// (experts_chain.h). False unless may_chain(), and when `down` doesn't follow its gate and up.
bool join_expert_chain(bool down, const ExpertVectorArgs& call, const LaunchShape& shape, Stream& stream);

}  // namespace rocmforge::amd
