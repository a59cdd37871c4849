#pragma once

#include <string_view>

#include "models/config/metadata_reader.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// What a family of encoders fixes.
struct VisionFamily {
  std::string_view name;  ///< as clip.projector_type has it
  /// Completes `config`, whose layers and sizes have been read, for a text model. Throws Error naming the key that is wrong.
  void (*configure)(VisionConfig& config, MetadataReader& metadata, const ModelConfig& text);
  bool has_layers = true;
};

/// The family of an encoder's file. Throws Error naming the projector, with the list of those supported.
const VisionFamily& vision_family(const GgufFile& file);

}  // namespace rocmforge
