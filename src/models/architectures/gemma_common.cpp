#include "models/architectures/gemma_common.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

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

void share_gemma_keys(ModelConfig& config, MetadataReader& metadata) {
  constexpr std::string_view key = "attention.shared_kv_layers";
  const std::int32_t shared = metadata.number(key, 0.0) == 0.0 ? 0 : metadata.count(key);
  if (shared >= config.layers) {
    throw metadata.error(key, fmt::format("is {} of {} layers", shared, config.layers));
  }
  for (std::int32_t index = config.layers - shared; index < config.layers; ++index) {
    AttentionConfig& own = config.blocks[static_cast<std::size_t>(index)].attention;
    std::int32_t owner = config.layers - shared - 1;
    while (owner >= 0 && config.layer(owner).attention.window != own.window) {
      --owner;
    }
    if (owner < 0) {
      throw metadata.error(key, fmt::format("is {}, but no layer before these has the window of layer {}", shared, index));
    }
    if (config.layer(owner).attention.kv_heads != own.kv_heads) {
      throw metadata.error("attention.head_count_kv",
                           fmt::format("is {} in layer {}, which reads the {} KV heads of layer {}", own.kv_heads, index,
                                       config.layer(owner).attention.kv_heads, owner));
    }
    own.keys_of = owner;
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
