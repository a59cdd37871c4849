#pragma once

#include <cstdint>

#include "models/metadata_reader.h"
#include "models/model_config.h"

namespace rocmforge {

/// What Gemma 1 to 3 share: the embedding times sqrt(hidden), a gate of GELU, halves of a head that turn. Their files hold
/// the weights of norms with the 1 added that the formula has.
void configure_gemma_common(ModelConfig& config, MetadataReader& metadata);

/// Gemma 2 and 3: norms before and behind each part.
void add_gemma_post_norms(ModelConfig& config);

/// The largest models scale scores by the embedding length per head in place of the head's own length.
void scale_by_hidden_per_head(ModelConfig& config, std::int32_t layers_of_largest);

}  // namespace rocmforge
