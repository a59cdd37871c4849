#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/ssm_config.h"

namespace rocmforge {
namespace {

/// Kimi Linear: layers without KV heads are delta nets with a decay for each key (Kimi Delta Attention), the others latent
/// attention without rotation. Experts as in DeepSeek V3, for whose weights' sum there is no key.
void configure_kimi_linear(ModelConfig& config, MetadataReader& metadata) {
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::none;
    if (layer.attention.kv_heads == 0) {
      layer.mixer = MixerKind::kimi_delta;
      layer.delta_net = read_kimi_delta(metadata, layer.attention.q_heads);
    }
  }
}

}  // namespace

Architecture kimi_linear_architecture() {
  return {.name = "kimi-linear", .configure = configure_kimi_linear, .mixes_otherwise = true, .latent = true};
}

}  // namespace rocmforge
