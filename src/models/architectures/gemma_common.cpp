#include "models/architectures/gemma_common.h"

#include <cmath>

namespace rocmforge {

void configure_gemma_common(ModelConfig& config, MetadataReader& metadata) {
  if (!metadata.contains("embedding_scale")) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  }
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.feed_forward.activation = Activation::gelu_tanh;
  }
}

void add_gemma_post_norms(ModelConfig& config) {
  for (LayerConfig& layer : config.blocks) {
    layer.graph.mixer_post_norm = "post_attention_norm";
    layer.graph.ffn_post_norm = "post_ffw_norm";
  }
}

void scale_by_hidden_per_head(ModelConfig& config, std::int32_t layers_of_largest) {
  for (LayerConfig& layer : config.blocks) {
    if (config.layers == layers_of_largest && layer.attention.scale == 0.0f) {
      layer.attention.scale =
          1.0f / std::sqrt(static_cast<float>(config.hidden) / static_cast<float>(layer.attention.q_heads));
    }
  }
}

}  // namespace rocmforge
