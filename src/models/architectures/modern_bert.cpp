#include <fmt/format.h>

#include <string>

#include "models/config/architecture.h"
#include "models/config/layer_windows.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

Activation read_activation(MetadataReader& metadata) {
  const std::string name = metadata.string("hidden_activation", "gelu");
  if (name != "gelu" && name != "silu") {
    throw metadata.error("hidden_activation", fmt::format("is '{}', only gelu and silu are supported", name));
  }
  return name == "silu" ? Activation::silu : Activation::gelu;
}

/// ModernBERT and Granite Embedding R2: LayerNorms without biases before the parts, but none before the first layer's
/// attention, which reads the normalised embedding. The first of every few layers sees the whole text; the others have a
/// window and a rotation of their own.
void configure_modern_bert(ModelConfig& config, MetadataReader& metadata) {
  config.encoder.is_encoder = true;
  config.embedding_norm = "token_embd_norm";
  window_but_first_of_every(config, metadata, 3);
  const Activation activation = read_activation(metadata);
  const auto local =
      plain_frequencies(config.layer(0).attention.rope.n_rot, read_window_rope_base(metadata, read_rope_base(metadata)));
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    if (layer.attention.window > 0) {
      layer.attention.rope.frequencies = local;
    }
    layer.feed_forward.activation = activation;
  }
  if (metadata.file().find_tensor("blk.0.attn_norm.weight") == nullptr) {
    config.blocks[0].graph.mixer_norm = "";
  }
}

/// EuroBERT: a Llama that sees the whole text.
void configure_eurobert(ModelConfig& config, MetadataReader& /*metadata*/) {
  config.encoder.is_encoder = true;
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
  }
}

}  // namespace

Architecture modern_bert_architecture() { return {"modern-bert", configure_modern_bert, NormKind::layer}; }
Architecture eurobert_architecture() { return {"eurobert", configure_eurobert}; }

}  // namespace rocmforge
