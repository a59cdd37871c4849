#pragma once

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// Reads the limits of each block's SwiGLU, if the file has any: `swiglu_clamp_exp` of routed experts, `swiglu_clamp_shexp`
/// of shared experts and dense parts. Call it after read_experts().
void read_swiglu_limits(ModelConfig& config, MetadataReader& metadata);

}  // namespace rocmforge
