#include "models/config/architecture.h"
#include "models/config/expert_config.h"

namespace rocmforge {
namespace {

/// MiniMax-M2: whole vectors of Q and K are normalised, a part of each head is rotated; experts are chosen by sigmoids with
/// a bias.
void configure_minimax_m2(ModelConfig& config, MetadataReader& metadata) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::vectors;
  }
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
}

}  // namespace

Architecture minimax_m2_architecture() { return {"minimax-m2", configure_minimax_m2}; }

}  // namespace rocmforge
