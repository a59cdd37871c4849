#include <fmt/format.h>

#include <string_view>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/mtp_config.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// Qwen3: every head of Q and K is normalised before its rotation; the head size is independent of the hidden size.
void configure_qwen3(ModelConfig& config, MetadataReader& /*metadata*/) {
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
  }
}

/// The same attention with experts in every layer.
void configure_qwen3moe(ModelConfig& config, MetadataReader& metadata) {
  configure_qwen3(config, metadata);
  read_experts(config, metadata, {.normalise = true});
}

/// dots.llm1: Qwen3's attention; the first layers are dense; in the others experts are chosen by sigmoids with a bias, and
/// there are shared experts.
void configure_dots1(ModelConfig& config, MetadataReader& metadata) {
  configure_qwen3(config, metadata);
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
}

/// Hy3: the same. Its MTP blocks read states after the final norm.
void configure_hy_v3(ModelConfig& config, MetadataReader& metadata) {
  separate_mtp_blocks(config, metadata);
  config.mtp_supported = false;
  configure_dots1(config, metadata);
  find_dense_layers(config, metadata.file());
}

/// The text part of Qwen3-VL: a token of a text has the same position in all dimensions, and only images add features to the
/// first layers.
void configure_qwen3vl(ModelConfig& config, MetadataReader& metadata) {
  configure_qwen3(config, metadata);
  read_rope_sections(config, metadata, RopeSections::interleaved);
  constexpr std::string_view key = "n_deepstack_layers";
  if (!metadata.contains(key)) {
    return;
  }
  config.deepstack_layers = metadata.list(key, 0).front();
  // Behind the last layer only the rows of wanted logits are left.
  if (config.deepstack_layers >= config.layers) {
    throw metadata.error(key, fmt::format("is {}, a model of {} layers has fewer", config.deepstack_layers, config.layers));
  }
}
void configure_qwen3vlmoe(ModelConfig& config, MetadataReader& metadata) {
  configure_qwen3vl(config, metadata);
  read_experts(config, metadata, {.normalise = true});
}

}  // namespace

Architecture qwen3vl_architecture() { return {"qwen3vl", configure_qwen3vl}; }
Architecture qwen3vlmoe_architecture() { return {"qwen3vlmoe", configure_qwen3vlmoe}; }
Architecture qwen3_architecture() { return {"qwen3", configure_qwen3}; }
Architecture qwen3moe_architecture() { return {"qwen3moe", configure_qwen3moe}; }
Architecture dots1_architecture() { return {"dots1", configure_dots1}; }
Architecture hy_v3_architecture() { return {"hy_v3", configure_hy_v3}; }

}  // namespace rocmforge
