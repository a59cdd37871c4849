#pragma once

#include <cstdint>

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// The common parts of Gemma 1 to 3: the embedding times sqrt(hidden), a GELU gate, rotation of pairs (p, p + n_rot / 2). In
/// their files the weights of norms already include the formula's + 1.
void configure_gemma_common(ModelConfig& config, MetadataReader& metadata);

/// Gemma 2 and later: norms before and after each part.
void add_gemma_post_norms(ModelConfig& config);

/// Gemma 3n and 4: the last attention.shared_kv_layers layers have no K and V. Each reads those of the last earlier layer of
/// its kind, with a window or without.
void share_gemma_keys(ModelConfig& config, MetadataReader& metadata);

/// The largest models scale scores by the embedding length per head in place of the head's own length.
void scale_by_hidden_per_head(ModelConfig& config, std::int32_t layers_of_largest);

}  // namespace rocmforge
