#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// GPT-2: learned positions instead of a rotation, LayerNorm and biases everywhere, Q, K and V in one tensor, a GELU
/// feed-forward part without a gate.
void configure_gpt2(ModelConfig& config, MetadataReader& /*metadata*/) {
  config.learned_positions = true;
  config.norm_needs_bias = true;
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::none;
    layer.attention.needs_bias = true;
    layer.attention.output_needs_bias = true;
    layer.feed_forward = {
        .width = layer.feed_forward.width, .activation = Activation::gelu_tanh, .gated = false, .needs_bias = true};
  }
}

}  // namespace

Architecture gpt2_architecture() { return {"gpt2", configure_gpt2, NormKind::layer}; }

}  // namespace rocmforge
