#include "models/config/architecture.h"
#include "models/config/expert_config.h"

namespace rocmforge {
namespace {

/// Hunyuan V1: every head of Q and K is normalised after its rotation. Converters scale the rotation's base.
void configure_hunyuan_dense(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.norm_after_turn = true;
  }
}

/// The same with experts and a shared expert.
void configure_hunyuan_moe(ModelConfig& config, MetadataReader& metadata) {
  configure_hunyuan_dense(config, metadata);
  read_experts(config, metadata, {.normalise = true});
}

}  // namespace

Architecture hunyuan_moe_architecture() { return {"hunyuan-moe", configure_hunyuan_moe}; }
Architecture hunyuan_dense_architecture() { return {"hunyuan-dense", configure_hunyuan_dense}; }

}  // namespace rocmforge
