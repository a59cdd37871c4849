#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// GLM-4-0414 and Z1: norms before and after each part, gate and up in one tensor, and neighbouring elements of the first
/// half of a head are rotated.
void configure_glm4(ModelConfig& config, MetadataReader& metadata) {
  if (metadata.contains("rope.dimension_sections")) {
    throw metadata.error("rope.dimension_sections", "asks for positions in several dimensions, which is not supported");
  }
  for (LayerConfig& layer : config.blocks) {
    layer.graph.mixer_post_norm = "post_attention_norm";
    layer.graph.ffn_post_norm = "post_ffw_norm";
  }
}

}  // namespace

Architecture glm4_architecture() { return {"glm4", configure_glm4}; }

}  // namespace rocmforge
