#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/mtp_config.h"

namespace rocmforge {
namespace {

/// GLM-4.5 to 4.7: the norm before the feed-forward part has the tensor name of a post-attention norm, half of each head is
/// rotated, and heads of Q and K are normalised where the file has the weights (the large models). The first layers are
/// dense. In the others experts are chosen by sigmoids with a bias, and there is a shared expert.
void configure_glm4moe(ModelConfig& config, MetadataReader& metadata) {
  if (metadata.contains("rope.dimension_sections")) {
    throw metadata.error("rope.dimension_sections", "asks for positions in several dimensions, which is not supported");
  }
  separate_mtp_blocks(config, metadata);
  const bool qk_norm = metadata.file().find_tensor("blk.0.attn_q_norm.weight") != nullptr;
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = qk_norm ? QkNorm::heads : QkNorm::none;
    layer.graph.ffn_norm = "post_attention_norm";
  }
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
}

}  // namespace

Architecture glm4moe_architecture() { return {"glm4moe", configure_glm4moe}; }

}  // namespace rocmforge
