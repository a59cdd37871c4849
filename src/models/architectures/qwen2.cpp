#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// Qwen2 and Qwen2.5: Q, K and V have a bias.
void configure_qwen2(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.needs_bias = true;
  }
}

/// The same with experts, whose weights are not normalised, and a shared expert with a gate.
void configure_qwen2moe(ModelConfig& config, MetadataReader& metadata) {
  configure_qwen2(config, metadata);
  read_experts(config, metadata, {.shared_gate = true});
}

/// The text part of Qwen2-VL and Qwen2.5-VL: a token of a text has the same position in all dimensions.
void configure_qwen2vl(ModelConfig& config, MetadataReader& metadata) {
  configure_qwen2(config, metadata);
  read_rope_sections(config, metadata, RopeSections::contiguous);
}

}  // namespace

Architecture qwen2vl_architecture() { return {"qwen2vl", configure_qwen2vl}; }
Architecture qwen2_architecture() { return {"qwen2", configure_qwen2}; }
Architecture qwen2moe_architecture() { return {"qwen2moe", configure_qwen2moe}; }

}  // namespace rocmforge
