#pragma once

#include "kernels/gpu/rope_args.h"
#include "ops/rope.h"

namespace rocmforge::gpu {

/// What a kernel that turns heads and appends K and V reads of the call.
[[nodiscard]] RopeAppendArgs rope_append_args(const RopeAppend::Spec& spec, const RopeAppend::Args& args);

}  // namespace rocmforge::gpu
