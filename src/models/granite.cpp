#include <fmt/format.h>

#include "models/architecture.h"

namespace rocmforge {
namespace {

/// Granite 3 (dense): Llama's block with factors for embedding, scores, residuals and logits, of which the last divides.
void configure_granite(ModelConfig& config, MetadataReader& metadata) {
  const double divisor = metadata.number("logit_scale", 1.0);
  if (divisor <= 0.0) {
    throw metadata.error("logit_scale", fmt::format("is {}, it must be positive", divisor));
  }
  config.logit_scale = static_cast<float>(1.0 / divisor);
  if (!metadata.file().boolean("granite.rope.scaling.finetuned", true)) {
    for (LayerConfig& layer : config.blocks) {
      layer.attention.rope.kind = RopeKind::none;  // what converters say by this key
    }
  }
}

}  // namespace

Architecture granite_architecture() { return {"granite", configure_granite}; }

}  // namespace rocmforge
