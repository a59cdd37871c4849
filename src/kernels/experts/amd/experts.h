#pragma once

#include <memory>

#include "ops/experts.h"

namespace rocmforge {

/// "amd": quantised experts, repacked at load (weight_layout.h). Up to 8 tokens take one launch for gate, up and activation
/// and one for down; more go through the dense matrix tiles, sorted by expert.
std::unique_ptr<ExpertMatmulKernel> make_amd_expert_matmul();

}  // namespace rocmforge
