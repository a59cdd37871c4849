#include <algorithm>

#include "models/config/architecture.h"
#include "models/config/layer_windows.h"

namespace rocmforge {
namespace {

/// EXAONE 4: norms come after the parts and not before them, and every head of Q and K is normalised. In models with a
/// window every fourth layer has no window and no rotation.
void configure_exaone4(ModelConfig& config, MetadataReader& metadata) {
  window_but_every(config, metadata, 4);
  const bool has_windows =
      std::ranges::any_of(config.blocks, [](const LayerConfig& layer) { return layer.attention.window > 0; });
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = has_windows && layer.attention.window == 0 ? RopeKind::none : RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
    layer.graph.mixer_norm = "";
    layer.graph.mixer_post_norm = "post_attention_norm";
    layer.graph.ffn_norm = "";
    layer.graph.ffn_post_norm = "post_ffw_norm";
  }
}

}  // namespace

Architecture exaone4_architecture() { return {"exaone4", configure_exaone4}; }

}  // namespace rocmforge
