#pragma once

#include <string_view>

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// Separates the last blocks, for multi-token prediction, from the layers of the model: sets ModelConfig::mtp_blocks. Throws
/// Error naming the key if no layer would be left.
void separate_mtp_blocks(ModelConfig& config, MetadataReader& metadata);

/// Whether the tensor with this name belongs to a block of multi-token prediction.
bool is_of_mtp(std::string_view tensor, const ModelConfig& config);

}  // namespace rocmforge
