#include "models/config/architecture.h"

namespace rocmforge {
namespace {

/// What the models of BERT's kind share: both directions, LayerNorms after each sum instead of norms before the parts, and a
/// norm of the embedding with its token types.
void configure_bert_kind(ModelConfig& config) {
  config.encoder.is_encoder = true;
  config.norm_needs_bias = true;
  config.embedding_norm = "token_embd_norm";
  config.output_norm = "";
  for (LayerConfig& layer : config.blocks) {
    layer.graph.mixer_norm = "";
    layer.graph.mixer_sum_norm = "attn_output_norm";
    layer.graph.ffn_norm = "";
    layer.graph.ffn_sum_norm = "layer_output_norm";
    layer.attention.rope.kind = RopeKind::half;
    layer.feed_forward.activation = Activation::gelu;
    layer.feed_forward.gated = false;
  }
}

/// BERT, RoBERTa and XLM-RoBERTa: learned positions, biases everywhere.
void configure_bert(ModelConfig& config, MetadataReader& /*metadata*/) {
  configure_bert_kind(config);
  config.learned_positions = true;
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::none;
    layer.attention.needs_bias = true;
    layer.attention.output_needs_bias = true;
    layer.feed_forward.needs_bias = true;
  }
}

/// Nomic Embed: rotation and a gated SiLU.
void configure_nomic_bert(ModelConfig& config, MetadataReader& /*metadata*/) {
  configure_bert_kind(config);
  for (LayerConfig& layer : config.blocks) {
    layer.feed_forward.activation = Activation::silu;
    layer.feed_forward.gated = true;
  }
}

/// Jina embeddings v3: BERT with rotation.
void configure_jina_bert_v3(ModelConfig& config, MetadataReader& /*metadata*/) {
  configure_bert_kind(config);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.needs_bias = true;
    layer.attention.output_needs_bias = true;
    layer.feed_forward.needs_bias = true;
  }
}

}  // namespace

Architecture bert_architecture() { return {"bert", configure_bert, NormKind::layer}; }
Architecture nomic_bert_architecture() { return {"nomic-bert", configure_nomic_bert, NormKind::layer}; }
Architecture jina_bert_v3_architecture() { return {"jina-bert-v3", configure_jina_bert_v3, NormKind::layer}; }

}  // namespace rocmforge
