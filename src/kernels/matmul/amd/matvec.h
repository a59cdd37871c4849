#pragma once

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge::amd {

/// A call of up to most_matvec_tokens tokens, whose outputs all have the layout of weight_layout.h, in one launch.
void run_matvec(const Matmul::Args& call, Stream& stream);

/// The same of F16 and BF16 weights as the file stores them, k a multiple of 8.
void run_dense_matvec(const Matmul::Args& call, Stream& stream);

}  // namespace rocmforge::amd
