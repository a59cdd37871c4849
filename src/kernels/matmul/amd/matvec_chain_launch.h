#pragma once

#include "device/device.h"
#include "kernels/matmul/amd/matvec_args.h"

namespace rocmforge::amd {

/// The kernel of matvec_packed.hip for a call that is a launch of its own.
[[nodiscard]] const Kernel<MatvecArgs>& packed_matvec_kernel(MatvecWay way);

/// Puts a call of one token into the launch with the calls before it that the stream still holds back, or begins such a
/// launch (matvec_chain.h). False when the stream holds no launches back.
bool join_chain(MatvecWay way, const MatvecArgs& call, const LaunchShape& shape, Stream& stream);

}  // namespace rocmforge::amd
