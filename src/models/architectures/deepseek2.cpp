#include <algorithm>
#include <string>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/model_tensors.h"
#include "models/config/mtp_config.h"

namespace rocmforge {
namespace {

/// Older files of GLM-4.7-Flash lack the key. They are recognised by the number of blocks, with or without the MTP block,
/// and the vocabulary.
bool chooses_by_sigmoid(const ModelConfig& config, const MetadataReader& metadata) {
  constexpr std::int64_t glm_vocabulary = 154880;
  const GgufTensor* table = metadata.file().find_tensor("token_embd.weight");
  return (config.layers == 47 || config.layers == 48) && table != nullptr &&
         has_shape(*table, {glm_vocabulary, config.hidden});
}

/// DeepSeek V2 to V3.1, and models with the same graph: Kimi K2, GLM-4.7-Flash, Moonlight. Latent attention; the first
/// layers are dense, the others have experts and shared experts. V2 chooses experts by a softmax, and groups by their best
/// expert; later models by sigmoids with a bias, and groups by their two best. A file
/// that does not name the function has V2's, even with a bias.
void configure_deepseek2(ModelConfig& config, MetadataReader& metadata) {
  const RouteScore score = chooses_by_sigmoid(config, metadata) ? RouteScore::sigmoid : RouteScore::softmax;
  separate_mtp_blocks(config, metadata);
  read_experts(config, metadata, {.score = score, .may_be_dense = true});
  for (LayerConfig& layer : config.blocks) {
    ExpertConfig& experts = layer.feed_forward.experts;
    experts.group_best = experts.score == RouteScore::softmax ? 1 : 2;
  }
}

/// GLM-5 and DeepSeek V3.2: the same graph, where an indexer chooses the keys that a query sees. As long as there are no
/// more than it would choose, a query sees all.
void configure_indexed(ModelConfig& config, MetadataReader& metadata) {
  separate_mtp_blocks(config, metadata);
  config.mtp_supported = false;
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
  config.most_positions = metadata.count("attention.indexer.top_k");
  config.context_length = std::min(config.context_length, config.most_positions);
  for (const char* key : {"head_count", "key_length", "types"}) {
    metadata.contains(std::string("attention.indexer.") + key);
  }
  for (LayerConfig& layer : config.blocks) {
    layer.attention.latent.indexed = true;
  }
}

}  // namespace

Architecture deepseek2_architecture() { return {.name = "deepseek2", .configure = configure_deepseek2, .latent = true}; }
Architecture glm_dsa_architecture() { return {.name = "glm-dsa", .configure = configure_indexed, .latent = true}; }
Architecture deepseek32_architecture() { return {.name = "deepseek32", .configure = configure_indexed, .latent = true}; }

}  // namespace rocmforge
