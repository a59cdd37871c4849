#include "models/architecture.h"

namespace rocmforge {
namespace {

/// Qwen2 and Qwen2.5: Q, K and V have a bias.
void configure_qwen2(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.needs_bias = true;
  }
}

}  // namespace

Architecture qwen2_architecture() { return {"qwen2", configure_qwen2}; }

}  // namespace rocmforge
