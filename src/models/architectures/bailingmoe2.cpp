#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/mtp_config.h"

namespace rocmforge {
namespace {

/// Ling and Ring 2.0: Q, K and V are one tensor, each head of Q and K is normalised and a part of it is rotated. The first
/// layers are dense. In the others experts are chosen in groups by sigmoids with a bias, and there is a shared expert.
void configure_bailingmoe2(ModelConfig& config, MetadataReader& metadata) {
  separate_mtp_blocks(config, metadata);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
  }
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
}

}  // namespace

Architecture bailingmoe2_architecture() { return {"bailingmoe2", configure_bailingmoe2}; }

}  // namespace rocmforge
