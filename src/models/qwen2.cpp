#include "models/architecture.h"
#include "models/decoder_layer.h"

namespace rocmforge {
namespace {

/// Qwen2 and Qwen2.5: Q, K and V have a bias.
void configure_qwen2(ModelConfig& config, MetadataReader& /*metadata*/) {
  config.rope_kind = RopeKind::half;
  config.qkv_bias = true;
}

}  // namespace

Architecture qwen2_architecture() { return {"qwen2", configure_qwen2, make_decoder_layer}; }

}  // namespace rocmforge
