#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "models/architectures/gemma_common.h"
#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/model_tensors.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// Layers with a window have another head length and another rotation.
void read_windowed_heads(ModelConfig& config, MetadataReader& metadata) {
  metadata.require("attention.sliding_window_pattern");
  const std::int32_t full = config.layer(0).attention.head_dim;
  const std::int32_t head_dim = metadata.count("attention.key_length_swa", full);
  constexpr std::int32_t longest_head = 65536;
  if (head_dim > longest_head) {
    throw metadata.error("attention.key_length_swa", fmt::format("is {}, at most {} is possible", head_dim, longest_head));
  }
  if (const std::int32_t values = metadata.count("attention.value_length_swa", head_dim); values != head_dim) {
    throw metadata.error("attention.value_length_swa", fmt::format("is {}, the key length is {}", values, head_dim));
  }
  const std::int32_t n_rot = read_window_rotated(metadata, head_dim);
  const auto frequencies = plain_frequencies(n_rot, read_window_rope_base(metadata));
  for (LayerConfig& layer : config.blocks) {
    if (layer.attention.window > 0) {
      layer.attention.head_dim = head_dim;
      layer.attention.rope.n_rot = n_rot;
      layer.attention.rope.frequencies = frequencies;
    }
  }
}

/// Properties of each layer that follow from the presence of tensors.
void read_tensors(ModelConfig& config, const GgufFile& file) {
  for (int index = 0; index < config.layers; ++index) {
    LayerConfig& layer = config.blocks[static_cast<std::size_t>(index)];
    const auto has = [&](std::string_view part) {
      return file.find_tensor(block_tensor(index, part) + ".weight") != nullptr;
    };
    const bool full = layer.attention.window == 0;
    layer.attention.values_are_keys = full && layer.attention.has_keys() && !has("attn_v") && !has("attn_qkv");
    if (has("layer_output_scale")) {
      layer.graph.output_scale = "layer_output_scale";
    }
  }
}

/// Gemma 4: layers with and without a window have different head lengths; heads of Q, K and V are normalised; scores are not
/// scaled; the tokens of an image see each other in layers with a window alone. Some models have experts beside each dense
/// part. In others layers share K and V and have embeddings of their own.
void configure_gemma4(ModelConfig& config, MetadataReader& metadata) {
  configure_gemma_common(config, metadata);
  add_gemma_post_norms(config);
  read_windowed_heads(config, metadata);
  share_gemma_keys(config, metadata);
  read_tensors(config, metadata.file());
  read_experts(config, metadata, {.normalise = true, .may_be_dense = true});
  constexpr std::string_view per_layer = "embedding_length_per_layer_input";
  config.per_layer_width = metadata.number(per_layer, 0.0) == 0.0 ? 0 : metadata.count(per_layer);
  for (LayerConfig& layer : config.blocks) {
    layer.feed_forward.experts.apart = layer.feed_forward.experts.count > 0;
    layer.feed_forward.experts.shared_width = layer.feed_forward.width;
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.value_norm = true;
    layer.attention.spans = layer.attention.window > 0;
    layer.attention.scale = layer.attention.scale == 0.0f ? 1.0f : layer.attention.scale;
  }
}

/// A Gemma 4 model without keys and values (AssistantFile).
void configure_assistant(ModelConfig& config, MetadataReader& metadata) {
  for (const char* key : {"embedding_length_out", "nextn_predict_layers", "attention.shared_kv_layers"}) {
    metadata.contains(key);
  }
  constexpr std::string_view per_layer = "embedding_length_per_layer_input";
  if (const double width = metadata.number(per_layer, 0.0); width != 0.0) {
    throw metadata.error(per_layer, fmt::format("is {}: an assistant has no embeddings of layers", width));
  }
  configure_gemma_common(config, metadata);
  add_gemma_post_norms(config);
  read_windowed_heads(config, metadata);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.keys_of = 0;  // of the model: AssistantFile says which
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.spans = layer.attention.window > 0;
    layer.attention.scale = layer.attention.scale == 0.0f ? 1.0f : layer.attention.scale;
  }
  read_tensors(config, metadata.file());
  config.logit_soft_cap = 0.0f;  // the published assistants tell their family's, and do without
}

}  // namespace

Architecture gemma4_architecture() { return {"gemma4", configure_gemma4}; }
Architecture gemma4_assistant_architecture() { return {"gemma4-assistant", configure_assistant}; }

}  // namespace rocmforge
