#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// Seed-OSS: Q, K and V have a bias, and the norm before the feed-forward part has another tensor name.
void configure_seed_oss(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.needs_bias = true;
    layer.graph.ffn_norm = "post_attention_norm";
  }
}

}  // namespace

Architecture seed_oss_architecture() { return {"seed_oss", configure_seed_oss}; }

}  // namespace rocmforge
