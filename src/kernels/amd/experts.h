#pragma once

#include <memory>

#include "ops/experts.h"

namespace rocmforge {

std::unique_ptr<ExpertMatmulKernel> make_amd_expert_matmul();

}  // namespace rocmforge
