#include <fmt/format.h>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/ssm_config.h"

namespace rocmforge {
namespace {

/// Granite 3: Llama's block with factors for embedding, scores, residuals and logits. Logits are divided by theirs.
void configure_granite(ModelConfig& config, MetadataReader& metadata) {
  const double divisor = metadata.number("logit_scale", 1.0);
  if (divisor <= 0.0) {
    throw metadata.error("logit_scale", fmt::format("is {}, it must be positive", divisor));
  }
  config.logit_scale = static_cast<float>(1.0 / divisor);
  if (!metadata.flag("rope.scaling.finetuned", true)) {
    for (LayerConfig& layer : config.blocks) {
      layer.attention.rope.kind = RopeKind::none;  // converters write this key for models without a rotation
    }
  }
}

void configure_granitemoe(ModelConfig& config, MetadataReader& metadata) {
  configure_granite(config, metadata);
  read_experts(config, metadata, {.normalise = true});
}

/// Granite 4.0-H: most layers are Mamba-2, those with KV heads are attention. The feed-forward part is experts or dense.
void configure_granitehybrid(ModelConfig& config, MetadataReader& metadata) {
  configure_granite(config, metadata);
  read_experts(config, metadata, {.normalise = true, .may_be_dense = true});
  const SsmConfig ssm = read_ssm(metadata);
  for (LayerConfig& layer : config.blocks) {
    if (layer.attention.kv_heads == 0) {
      layer.mixer = MixerKind::ssm;
      layer.ssm = ssm;
    }
  }
}

}  // namespace

Architecture granite_architecture() { return {"granite", configure_granite}; }
Architecture granitemoe_architecture() { return {"granitemoe", configure_granitemoe}; }
Architecture granitehybrid_architecture() { return {"granitehybrid", configure_granitehybrid, NormKind::rms, true}; }

}  // namespace rocmforge
