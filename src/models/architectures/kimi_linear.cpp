#include <fmt/format.h>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/mtp_config.h"
#include "models/config/ssm_config.h"
#include "models/config/swiglu_config.h"

namespace rocmforge {
namespace {

/// Kimi Linear: layers without KV heads are delta nets with a decay for each key (Kimi Delta Attention), the others latent
/// attention without rotation. Experts as in DeepSeek V3, for whose weights' sum there is no key.
void configure_kimi_linear(ModelConfig& config, MetadataReader& metadata) {
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.kind = RopeKind::none;
    if (layer.attention.kv_heads == 0) {
      layer.mixer = MixerKind::kimi_delta;
      layer.delta_net = read_kimi_delta(metadata, layer.attention.q_heads);
    }
  }
}

/// What the logarithms of decays can't fall below.
float read_decay_floor(MetadataReader& metadata) {
  if (!metadata.flag("kda.safe_gate", true)) {
    throw metadata.error("kda.safe_gate", "is false, decays without a floor are not supported here");
  }
  const double floor = metadata.number("kda.gate_lower_bound");
  if (!(floor < 0.0)) {
    throw metadata.error("kda.gate_lower_bound", fmt::format("is {}, it must be below 0", floor));
  }
  return static_cast<float>(floor);
}

/// Ling 3: the same kinds of layers. Decays have a floor, they and the gates of outputs are products of the hidden state.
/// Latent attention turns, and its heads have gates.
void configure_bailingmoe3(ModelConfig& config, MetadataReader& metadata) {
  separate_mtp_blocks(config, metadata);
  config.mtp_supported = false;
  if (metadata.contains("rope.dimension_sections")) {
    throw metadata.error("rope.dimension_sections", "is of a model that sees, which is not supported");
  }
  read_experts(config, metadata, {.score = RouteScore::sigmoid, .normalise = true});
  read_swiglu_limits(config, metadata);
  const float floor = read_decay_floor(metadata);
  for (LayerConfig& layer : config.blocks) {
    if (layer.attention.kv_heads == 0) {
      layer.mixer = MixerKind::kimi_delta;
      layer.delta_net = read_kimi_delta(metadata, layer.attention.q_heads);
      layer.delta_net.full_gates = true;
      layer.delta_net.decay_floor = floor;
    } else {
      layer.attention.own_gate = OutputGate::Gate::sigmoid;
      layer.attention.gates_of_heads = true;
    }
  }
}

}  // namespace

Architecture bailingmoe3_architecture() {
  return {.name = "bailingmoe3", .configure = configure_bailingmoe3, .mixes_otherwise = true, .latent = true};
}
Architecture kimi_linear_architecture() {
  return {.name = "kimi-linear", .configure = configure_kimi_linear, .mixes_otherwise = true, .latent = true};
}

}  // namespace rocmforge
