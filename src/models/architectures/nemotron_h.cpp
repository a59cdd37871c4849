#include <fmt/format.h>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/ssm_config.h"

namespace rocmforge {
namespace {

/// Nemotron-H: a layer is one part after one norm. Layers with KV heads are attention without rotation, layers with a
/// feed-forward width are feed-forward parts without a gate, and the others are Mamba-2.
void configure_nemotron_h(ModelConfig& config, MetadataReader& metadata) {
  const SsmConfig ssm = read_ssm(metadata);
  for (int index = 0; index < config.layers; ++index) {
    LayerConfig& layer = config.blocks[static_cast<std::size_t>(index)];
    const bool attends = layer.attention.kv_heads > 0;
    if (layer.feed_forward.width > 0) {
      if (attends) {
        throw metadata.error("attention.head_count_kv", fmt::format("is {} in layer {}, which has a feed-forward part",
                                                                    layer.attention.kv_heads, index));
      }
      layer.graph.parts = BlockParts::feed_forward;
      layer.graph.ffn_norm = layer.graph.mixer_norm;
      layer.feed_forward.activation = Activation::relu_squared;
      layer.feed_forward.gated = false;
      continue;
    }
    layer.graph.parts = BlockParts::mixer;
    layer.feed_forward = {};
    layer.attention.rope.kind = RopeKind::none;
    if (!attends) {
      layer.mixer = MixerKind::ssm;
      layer.ssm = ssm;
    }
  }
}

/// Nemotron-H with experts, none of them with a gate, as feed-forward parts. In the large models routed experts work on
/// latents.
void configure_nemotron_h_moe(ModelConfig& config, MetadataReader& metadata) {
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
  configure_nemotron_h(config, metadata);
  const bool latent = metadata.number("moe_latent_size", 0.0) != 0.0;
  const std::int32_t latent_size = latent ? metadata.count("moe_latent_size") : 0;
  for (LayerConfig& layer : config.blocks) {
    layer.feed_forward.experts.latent_size = layer.feed_forward.experts.count > 0 ? latent_size : 0;
  }
}

}  // namespace

Architecture nemotron_h_architecture() { return {"nemotron_h", configure_nemotron_h, NormKind::rms, true, false, true}; }
Architecture nemotron_h_moe_architecture() {
  return {"nemotron_h_moe", configure_nemotron_h_moe, NormKind::rms, true, false, true};
}

}  // namespace rocmforge
