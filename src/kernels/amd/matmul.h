#pragma once

#include <memory>

#include "ops/matmul.h"

namespace rocmforge {

/// "amd": quantised weights, repacked at load (weight_layout.h). Up to 8 tokens read each weight once and take the norm
/// before and the gate behind the product into the call; more go through the matrix tiles of "gpu".
std::unique_ptr<MatmulKernel> make_amd_matmul();

}  // namespace rocmforge
