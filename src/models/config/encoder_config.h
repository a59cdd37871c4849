#pragma once

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// Reads what an encoder has, if attention.causal is false or the architecture has said that the model is one: token types,
/// classifier, dense layers. Windows become those of attention in both directions: the file's number counts the positions
/// before a query and those behind it. Throws Error for parts that can't see a whole text, and for a file that is to give
/// scores (pooling rank) and has no classifier.
void read_encoder(ModelConfig& config, MetadataReader& metadata);

}  // namespace rocmforge
