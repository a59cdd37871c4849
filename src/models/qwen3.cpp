#include "models/architecture.h"

namespace rocmforge {
namespace {

/// Qwen3: every head of Q and K is normalised before it turns; the head size is independent of the hidden size.
void configure_qwen3(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
  }
}

}  // namespace

Architecture qwen3_architecture() { return {"qwen3", configure_qwen3}; }

}  // namespace rocmforge
