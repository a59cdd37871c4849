#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// StarCoder2: LayerNorm and biases everywhere, a GELU feed-forward part without a gate.
void configure_starcoder2(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.feed_forward = {.width = layer.feed_forward.width, .activation = Activation::gelu_tanh, .gated = false};
  }
}

}  // namespace

Architecture starcoder2_architecture() { return {"starcoder2", configure_starcoder2, NormKind::layer}; }

}  // namespace rocmforge
