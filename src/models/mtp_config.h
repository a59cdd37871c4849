#pragma once

#include <string_view>

#include "models/metadata_reader.h"
#include "models/model_config.h"

namespace rocmforge {

/// Separates the last blocks, which predict further tokens, from the layers of the model: ModelConfig::mtp_blocks. Throws
/// Error naming the key if no layer would be left.
void separate_mtp_blocks(ModelConfig& config, MetadataReader& metadata);

/// Whether the tensor with this name is of such a block.
bool is_of_mtp(std::string_view tensor, const ModelConfig& config);

}  // namespace rocmforge
