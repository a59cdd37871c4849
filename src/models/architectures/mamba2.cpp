#include "models/config/architecture.h"
#include "models/config/ssm_config.h"

namespace rocmforge {
namespace {

/// Mamba-2: neither attention nor a feed-forward part.
void configure_mamba2(ModelConfig& config, MetadataReader& metadata) {
  const SsmConfig ssm = read_ssm(metadata);
  for (LayerConfig& layer : config.blocks) {
    layer.mixer = MixerKind::ssm;
    layer.ssm = ssm;
    layer.feed_forward = {};
    layer.graph.parts = BlockParts::mixer;
  }
}

}  // namespace

Architecture mamba2_architecture() { return {"mamba2", configure_mamba2, NormKind::rms, true, false, true}; }

}  // namespace rocmforge
