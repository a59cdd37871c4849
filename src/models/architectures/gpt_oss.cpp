#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/layer_windows.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// gpt-oss: every other layer has a window, heads have sinks, all linear layers have biases, and the norm before the
/// feed-forward part has the tensor name of a post-attention norm. Gate and up of experts are clamped; the router's weights
/// are the softmax over the chosen logits. YaRN was trained with a ramp that begins between pairs.
void configure_gpt_oss(ModelConfig& config, MetadataReader& metadata) {
  const AttentionConfig& first = config.layer(0).attention;
  const RopeConfig rope = read_rope(metadata, first.head_dim, config.context_length, config.context_length, false);
  metadata.require("attention.sliding_window");
  window_but_every(config, metadata, 2);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope = rope;
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.needs_bias = true;
    layer.attention.output_needs_bias = true;
    layer.attention.sinks = true;
    layer.feed_forward.activation = Activation::clamped_swiglu;
    layer.graph.ffn_norm = "post_attention_norm";
  }
  read_experts(config, metadata, {.score = RouteScore::chosen_softmax, .needs_bias = true});
}

}  // namespace

Architecture gpt_oss_architecture() { return {"gpt-oss", configure_gpt_oss}; }

}  // namespace rocmforge
