#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// Nemotron and Minitron: LayerNorm, whose stored weights include the formula's + 1, rotation of a part of each head, and a
/// squared-ReLU feed-forward part without a gate.
void configure_nemotron(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.feed_forward = {.width = layer.feed_forward.width, .activation = Activation::relu_squared, .gated = false};
  }
}

}  // namespace

Architecture nemotron_architecture() { return {"nemotron", configure_nemotron, NormKind::layer}; }

}  // namespace rocmforge
