#include "models/architecture.h"
#include "models/expert_config.h"
#include "models/mtp_config.h"

namespace rocmforge {
namespace {

/// Ling and Ring 2.0: Q, K and V are one tensor, each head of Q and K is normalised and turns in part. Dense layers come
/// first; then experts are chosen in groups by sigmoids with a bias, beside one that every token takes.
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
