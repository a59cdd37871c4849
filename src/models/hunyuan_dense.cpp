#include "models/architecture.h"

namespace rocmforge {
namespace {

/// Hunyuan V1 (dense): every head of Q and K is normalised after it has turned. Converters scale the rotation's base.
void configure_hunyuan_dense(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.norm_after_turn = true;
  }
}

}  // namespace

Architecture hunyuan_dense_architecture() { return {"hunyuan-dense", configure_hunyuan_dense}; }

}  // namespace rocmforge
