#pragma once

#include <string_view>

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

// Files of encoders (mmproj, architecture "clip"): an image encoder, an audio encoder, or both.

/// Whether a tensor is the audio encoder's.
bool is_of_audio_encoder(std::string_view tensor);

/// Layers with attention in both directions and without rotation, as the keys `half`.embedding_length and so on have them;
/// `half` is "vision" or "audio". Without `has_layers` the width and the norm alone. Throws Error naming the key.
void read_encoder_layers(ModelConfig& encoder, MetadataReader& metadata, std::string_view half, bool has_layers = true);

}  // namespace rocmforge
