#include "models/architectures/gemma_common.h"
#include "models/config/architecture.h"
#include "models/config/layer_windows.h"

namespace rocmforge {
namespace {

/// Gemma 2: every other layer has a window; scores and logits have a soft-cap.
void configure_gemma2(ModelConfig& config, MetadataReader& metadata) {
  configure_gemma_common(config, metadata);
  add_gemma_post_norms(config);
  // Defaults for older files without these keys.
  const bool has_window = metadata.contains("attention.sliding_window");
  const double score_cap = metadata.number("attn_logit_softcapping", 50.0);
  config.logit_soft_cap = static_cast<float>(metadata.number("final_logit_softcapping", 30.0));
  for (LayerConfig& layer : config.blocks) {
    layer.attention.window = has_window ? layer.attention.window : 4096;
    layer.attention.soft_cap = static_cast<float>(score_cap);
  }
  window_but_every(config, metadata, 2);
  constexpr std::int32_t layers_of_27b = 46;
  scale_by_hidden_per_head(config, layers_of_27b);
}

}  // namespace

Architecture gemma2_architecture() { return {"gemma2", configure_gemma2}; }

}  // namespace rocmforge
