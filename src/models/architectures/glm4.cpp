#include "models/config/architecture.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// GLM-4-0414 and Z1: norms before and after each part, gate and up in one tensor, and neighbouring elements of the first
/// half of a head are rotated.
void configure_glm4(ModelConfig& config, MetadataReader& metadata) {
  read_rope_sections(config, metadata, RopeSections::contiguous);
  for (LayerConfig& layer : config.blocks) {
    if (config.position_axes > 1) {  // GLM-4.1V: its converter puts the elements of a pair apart
      layer.attention.rope.kind = RopeKind::half;
    }
    layer.graph.mixer_post_norm = "post_attention_norm";
    layer.graph.ffn_post_norm = "post_ffw_norm";
  }
}

}  // namespace

Architecture glm4_architecture() { return {"glm4", configure_glm4}; }

}  // namespace rocmforge
