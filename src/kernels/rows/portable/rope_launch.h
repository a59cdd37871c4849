#pragma once

#include "kernels/rows/portable/rope_args.h"
#include "ops/rope.h"

namespace rocmforge::gpu {

/// The arguments of kernels that turn heads and append K and V.
[[nodiscard]] RopeAppendArgs rope_append_args(const RopeAppend::Spec& spec, const RopeAppend::Args& args);

}  // namespace rocmforge::gpu
