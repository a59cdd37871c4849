#include "models/config/architecture.h"
#include "models/config/model_tensors.h"

namespace rocmforge {
namespace {

/// Falcon 7B, 40B and 11B: the two parts of a block run in parallel after one LayerNorm; in 40B attention has a LayerNorm of
/// its own. Q, K and V are one tensor, with one KV head or a few. The feed-forward part is GELU without a gate.
void configure_falcon(ModelConfig& config, MetadataReader& metadata) {
  config.norm_needs_bias = true;
  for (int index = 0; index < config.layers; ++index) {
    LayerConfig& layer = config.blocks[static_cast<std::size_t>(index)];
    layer.attention.rope.kind = RopeKind::half;
    layer.feed_forward = {.width = layer.feed_forward.width, .activation = Activation::gelu, .gated = false};
    layer.graph.parallel = true;
    layer.graph.ffn_norm = "attn_norm";
    const auto has = [&](std::string_view part) {
      return metadata.file().find_tensor(block_tensor(index, part)) != nullptr;
    };
    if (has("attn_norm_2.weight") || has("attn_norm_2.bias")) {
      layer.graph.mixer_norm = "attn_norm_2";
    }
  }
}

}  // namespace

Architecture falcon_architecture() { return {"falcon", configure_falcon, NormKind::layer}; }

}  // namespace rocmforge
