#include <fmt/format.h>

#include "models/config/architecture.h"
#include "models/config/layer_windows.h"

namespace rocmforge {
namespace {

/// The common part of both generations: one LayerNorm before the two parts of a block, which run in parallel, and a factor
/// of the logits.
void configure_cohere(ModelConfig& config, MetadataReader& metadata) {
  config.logit_scale = static_cast<float>(metadata.number("logit_scale"));
  if (config.logit_scale <= 0.0f) {
    throw metadata.error("logit_scale", fmt::format("is {}, it must be positive", config.logit_scale));
  }
  const bool has_head_norms = metadata.file().find_tensor("blk.0.attn_q_norm.weight") != nullptr;
  for (LayerConfig& layer : config.blocks) {
    layer.attention.qk_norm = has_head_norms ? QkNorm::layer_heads : QkNorm::none;
    layer.graph.parallel = true;
    layer.graph.ffn_norm = layer.graph.mixer_norm;
  }
}

/// Command R7B and A: three of four layers have a window, and heads are rotated only in these.
void configure_cohere2(ModelConfig& config, MetadataReader& metadata) {
  configure_cohere(config, metadata);
  window_but_every(config, metadata, 4);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = layer.attention.window > 0 ? RopeKind::adjacent : RopeKind::none;
  }
}

}  // namespace

/// Command R, and Command R+, which normalises every head of Q and K by a LayerNorm.
Architecture command_r_architecture() { return {"command-r", configure_cohere, NormKind::layer}; }
Architecture cohere2_architecture() { return {"cohere2", configure_cohere2, NormKind::layer}; }

}  // namespace rocmforge
