#include <memory>
#include <utility>

#include "models/config/architecture.h"
#include "models/config/layer_windows.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// The first converters of OLMo 3 wrote YaRN's whole magnitude as attn_factor, which elsewhere multiplies it.
void take_whole_magnitude(RopeConfig& rope, MetadataReader& metadata) {
  if (metadata.string("rope.scaling.type", "none") != "yarn" || !metadata.contains("rope.scaling.attn_factor") ||
      names_yarn_magnitude(metadata)) {
    return;
  }
  RopeFrequencies frequencies = *rope.frequencies;
  frequencies.magnitude = static_cast<float>(metadata.number("rope.scaling.attn_factor"));
  rope.frequencies = std::make_shared<const RopeFrequencies>(std::move(frequencies));
}

/// OLMo 2 and 3: norms come after the parts and not before them, and Q and K are normalised as whole vectors. In OLMo 3
/// three of four layers have a window; their rotation is not scaled and may have a base of its own.
void configure_olmo2(ModelConfig& config, MetadataReader& metadata) {
  window_but_every(config, metadata, 4);
  RopeConfig rope = config.layer(0).attention.rope;
  take_whole_magnitude(rope, metadata);
  const auto unstretched = plain_frequencies(rope.n_rot, read_window_rope_base(metadata, read_rope_base(metadata)));
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope = rope;
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
