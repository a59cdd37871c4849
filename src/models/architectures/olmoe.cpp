#include "models/config/architecture.h"
#include "models/config/expert_config.h"

namespace rocmforge {
namespace {

/// OLMoE: whole vectors of Q and K are normalised; experts, whose weights are not normalised, in every layer.
void configure_olmoe(ModelConfig& config, MetadataReader& metadata) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::vectors;
  }
  read_experts(config, metadata, {});
}

}  // namespace

Architecture olmoe_architecture() { return {"olmoe", configure_olmoe}; }

}  // namespace rocmforge
