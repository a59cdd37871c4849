#include "models/architecture.h"
#include "models/decoder_layer.h"

namespace rocmforge {
namespace {

/// Qwen3: every head of Q and K is normalised before it turns; the head size is independent of the hidden size.
void configure_qwen3(ModelConfig& config, MetadataReader& /*metadata*/) {
  config.rope_kind = RopeKind::half;
  config.head_norm = true;
}

}  // namespace

Architecture qwen3_architecture() { return {"qwen3", configure_qwen3, make_decoder_layer}; }

}  // namespace rocmforge
