#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// Phi-3, Phi-3.5 and Phi-4: Q, K and V are one tensor, and so are gate and up. Models for long contexts have frequency
/// factors for long and for short contexts. The smallest Phi-4 rotates a part of each head.
void configure_phi3(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
  }
}

}  // namespace

Architecture phi3_architecture() { return {"phi3", configure_phi3}; }

}  // namespace rocmforge
