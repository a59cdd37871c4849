#pragma once

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge::hopper {

/// Whether this output of the call goes through matmul_cluster.cu. Depends on the call's tokens and k and on the output
/// alone (with a gate on both outputs), so that other members of a group change no sum.
bool takes_cluster(const Matmul::Args& call, const MatmulOutput& output);

/// Computes the outputs of `call`, for all of which takes_cluster() is true. Needs no workspace.
void run_matmul_cluster(const Matmul::Args& call, Stream& stream);

}  // namespace rocmforge::hopper
