#include <fmt/format.h>

#include "models/config/architecture.h"
#include "models/config/layer_windows.h"
#include "models/config/output_gates.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// Muse Glimmer: embeddings are normalised without weights; norms before and after each part, of which those after it have
/// an epsilon of their own; heads of Q and K are normalised; the sigmoid of gates multiplies the output of attention. Three
/// of four layers have a window, and they alone turn their heads.
void configure_muse_glimmer(ModelConfig& config, MetadataReader& metadata) {
  constexpr float post_norm_eps = 1e-8f;
  constexpr std::int32_t period = 4;
  config.plain_embedding_norm = true;
  config.logit_scale = static_cast<float>(metadata.number("logit_scale"));
  if (config.logit_scale <= 0.0f) {
    throw metadata.error("logit_scale", fmt::format("is {}, it must be positive", config.logit_scale));
  }
  window_but_every(config, metadata, period);
  const auto windowed =
      plain_frequencies(config.layer(0).attention.rope.n_rot, read_window_rope_base(metadata, read_rope_base(metadata)));
  for (LayerConfig& layer : config.blocks) {
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.rope.frequencies = windowed;
    if (layer.attention.window == 0) {
      layer.attention.rope.kind = RopeKind::none;
    }
    layer.graph.mixer_post_norm = "post_attention_norm";
    layer.graph.ffn_post_norm = "post_ffw_norm";
    layer.graph.post_norm_eps = post_norm_eps;
  }
  set_own_gates(config, metadata.file(), OutputGate::Gate::sigmoid);
}

}  // namespace

Architecture muse_glimmer_architecture() { return {"muse-glimmer", configure_muse_glimmer}; }

}  // namespace rocmforge
