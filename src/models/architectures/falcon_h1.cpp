#include "models/config/architecture.h"
#include "models/config/model_tensors.h"
#include "models/config/ssm_config.h"

namespace rocmforge {
namespace {

/// Falcon-H1: every layer has attention and Mamba-2 beside each other. Converters multiply the weights by the model's many
/// factors, and name the norm before the feed-forward part without ".weight".
void configure_falcon_h1(ModelConfig& config, MetadataReader& metadata) {
  SsmConfig ssm = read_ssm(metadata);
  ssm.norm = metadata.file().find_tensor("blk.0.ssm_norm.weight") != nullptr;
  for (int index = 0; index < config.layers; ++index) {
    LayerConfig& layer = config.blocks[static_cast<std::size_t>(index)];
    layer.mixer = MixerKind::attention_and_ssm;
    layer.ssm = ssm;
    layer.attention.rope.kind = RopeKind::half;
    if (metadata.file().find_tensor(block_tensor(index, "ffn_norm")) != nullptr) {
      layer.graph.ffn_norm_suffix = "";
    }
  }
}

}  // namespace

Architecture falcon_h1_architecture() { return {"falcon-h1", configure_falcon_h1}; }

}  // namespace rocmforge
