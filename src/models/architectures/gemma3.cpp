#include "models/architectures/gemma_common.h"
#include "models/config/architecture.h"
#include "models/config/layer_windows.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// Gemma 3: every head of Q and K is normalised. Five of six layers have a window; their rotation is faster and not scaled.
void configure_gemma3(ModelConfig& config, MetadataReader& metadata) {
  configure_gemma_common(config, metadata);
  add_gemma_post_norms(config);
  window_but_every(config, metadata, 6);
  constexpr std::int32_t layers_of_27b = 62;
  scale_by_hidden_per_head(config, layers_of_27b);
  const auto local = plain_frequencies(config.layer(0).attention.rope.n_rot, read_window_rope_base(metadata, 10000.0));
  for (LayerConfig& layer : config.blocks) {
    layer.attention.qk_norm = QkNorm::heads;
    if (layer.attention.window > 0) {
      layer.attention.rope.frequencies = local;
    }
  }
}

/// EmbeddingGemma: Gemma 3 that sees the whole text, with dense layers behind it.
void configure_gemma_embedding(ModelConfig& config, MetadataReader& metadata) {
  configure_gemma3(config, metadata);
  config.encoder.is_encoder = true;
}

}  // namespace

Architecture gemma_embedding_architecture() { return {"gemma-embedding", configure_gemma_embedding}; }
Architecture gemma3_architecture() { return {"gemma3", configure_gemma3}; }

}  // namespace rocmforge
