#pragma once

#include <cstdint>

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// The numbers of latent attention, the same for all layers. Files describe heads in one of two ways. Newer files give the
/// length of the latent row that all heads share (key_length, one KV head), and the heads' own lengths in key_length_mla and
/// value_length_mla. Older files give only the heads' own lengths (key_length, as many KV heads as query heads). Where
/// layers may have another mixer, that has 0 KV heads, and value_length means nothing: the converter writes some width of a
/// head.
///
/// YaRN multiplies scores here, not angles: with yarn_log_multiplier a, the file's 0.1 * mscale_all_dim, scores have the
/// factor (1 + a ln(factor))^2, and cos and sin none. Throws Error naming the key of an impossible value.
AttentionConfig read_latent_attention(const ModelConfig& config, MetadataReader& metadata, std::int32_t q_heads,
                                      std::int32_t context, bool mixes_otherwise);

}  // namespace rocmforge
