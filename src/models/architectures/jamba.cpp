#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/ssm_config.h"

namespace rocmforge {
namespace {

/// Jamba: most layers are Mamba with norms of its time steps, B and C; those with KV heads are attention without rotation.
/// Some layers have experts.
void configure_jamba(ModelConfig& config, MetadataReader& metadata) {
  read_experts(config, metadata, {.may_be_dense = true});
  find_dense_layers(config, metadata.file());
  MambaConfig mamba = read_mamba(metadata);
  mamba.norms = MambaNorms::weighted;
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::none;
    if (layer.attention.kv_heads == 0) {
      layer.mixer = MixerKind::mamba;
      layer.mamba = mamba;
    }
  }
}

}  // namespace

Architecture jamba_architecture() { return {"jamba", configure_jamba, NormKind::rms, true}; }

}  // namespace rocmforge
