#pragma once

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge::hopper {

/// Whether this output of the call goes through matmul_cluster.cu. It depends on the call's tokens and k and on the output
/// alone (with a gate on both), so that what else a group holds changes no sum.
bool takes_cluster(const Matmul::Args& call, const MatmulOutput& output);

/// The outputs of `call`, all of which takes_cluster() is true for; without a workspace.
void run_matmul_cluster(const Matmul::Args& call, Stream& stream);

}  // namespace rocmforge::hopper
