#include <fmt/format.h>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"

namespace rocmforge {
namespace {

/// LFM2: most layers are convolutions over a few positions; those with KV heads are attention with norms of Q and K.
void configure_lfm2(ModelConfig& config, MetadataReader& metadata) {
  const std::int32_t taps = metadata.count("shortconv.l_cache");
  constexpr std::int32_t most_taps = 1024;  // the bound keeps a damaged file from causing large allocations
  if (taps < 2 || taps > most_taps) {
    throw metadata.error("shortconv.l_cache", fmt::format("is {}, it must be in [2, {}]", taps, most_taps));
  }
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
    if (layer.attention.kv_heads == 0) {
      layer.mixer = MixerKind::short_conv;
      layer.short_conv_taps = taps;
    }
  }
  if (metadata.file().find_tensor("token_embd_norm.weight") != nullptr) {  // converters give the final norm this name
    config.output_norm = "token_embd_norm";
  }
}

void configure_lfm2moe(ModelConfig& config, MetadataReader& metadata) {
  configure_lfm2(config, metadata);
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
}

}  // namespace

Architecture lfm2_architecture() { return {"lfm2", configure_lfm2, NormKind::rms, true}; }
Architecture lfm2moe_architecture() { return {"lfm2moe", configure_lfm2moe, NormKind::rms, true}; }

}  // namespace rocmforge
