#include "models/config/architecture.h"
#include "models/config/ssm_config.h"

namespace rocmforge {
namespace {

/// Mamba: neither attention nor a feed-forward part. Falcon Mamba has norms without weights.
void configure_mamba(ModelConfig& config, MetadataReader& metadata) {
  MambaConfig mamba = read_mamba(metadata);
  if (metadata.flag("ssm.dt_b_c_rms", false)) {
    mamba.norms = MambaNorms::plain;
  }
  for (LayerConfig& layer : config.blocks) {
    layer.mixer = MixerKind::mamba;
    layer.mamba = mamba;
    layer.feed_forward = {};
    layer.graph.parts = BlockParts::mixer;
  }
}

}  // namespace

Architecture mamba_architecture() { return {"mamba", configure_mamba, NormKind::rms, true, false, true}; }

}  // namespace rocmforge
