#include "models/architecture.h"
#include "models/layer_windows.h"
#include "models/rope_config.h"

namespace rocmforge {
namespace {

/// OLMo 2 and 3: norms come after the parts and not before them, and Q and K are normalised as whole vectors. In OLMo 3
/// three of four layers have a window; their rotation is not scaled.
void configure_olmo2(ModelConfig& config, MetadataReader& metadata) {
  window_but_every(config, metadata, 4);
  const RopeConfig rope = config.layer(0).attention.rope;
  const auto unstretched = plain_frequencies(rope.n_rot, read_rope_base(metadata));
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::vectors;
    layer.graph.mixer_norm = "";
    layer.graph.mixer_post_norm = "post_attention_norm";
    layer.graph.ffn_norm = "";
    layer.graph.ffn_post_norm = "post_ffw_norm";
    if (layer.attention.window > 0) {
      layer.attention.rope.frequencies = unstretched;
    }
  }
}

}  // namespace

Architecture olmo2_architecture() { return {"olmo2", configure_olmo2}; }

}  // namespace rocmforge
