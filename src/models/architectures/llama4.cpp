#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/layer_windows.h"

namespace rocmforge {
namespace {

/// Converters write no key for chunks but of 0, which means that no layer has them.
void read_chunks(ModelConfig& config, MetadataReader& metadata) {
  constexpr std::string_view key = "attention.sliding_window";
  constexpr std::int32_t released = 8192;
  constexpr std::int32_t period = 4;  // of layers without chunks
  if (!metadata.contains(key)) {
    if (metadata.contains("attention.sliding_window_pattern")) {
      throw metadata.error(key, "is missing, but there is a pattern of it");
    }
    for (LayerConfig& layer : config.blocks) {
      layer.attention.window = released;
    }
  }
  window_but_every(config, metadata, period);
  for (LayerConfig& layer : config.blocks) {
    const std::int32_t chunk = layer.attention.window;
    if (chunk > 0 && !std::has_single_bit(static_cast<std::uint32_t>(chunk))) {
      throw metadata.error(key, fmt::format("is {}, chunks of positions must be a power of two", chunk));
    }
    layer.attention.chunked = chunk > 0;
  }
}

/// Layers without chunks do not turn their heads; there queries grow with their position.
void read_layers_without_chunks(ModelConfig& config, MetadataReader& metadata) {
  const double temperature = metadata.number("attention.temperature_scale", 0.1);
  const std::int32_t length = metadata.count("attention.temperature_length", 8192);
  for (LayerConfig& layer : config.blocks) {
    if (layer.attention.window == 0) {
      layer.attention.rope.kind = RopeKind::none;
      layer.attention.temperature_scale = static_cast<float>(temperature);
      layer.attention.temperature_length = length;
      layer.attention.temperature_ahead = 1;
    }
  }
}

/// Llama 4: three of four layers see the chunk of a query's position and turn their heads, the fourth sees all. A token has
/// one expert, which reads rows times its weight, and a shared one. Heads that turn are normalised behind it, but for the
/// model with 128 experts, whose files do not say so.
void configure_llama4(ModelConfig& config, MetadataReader& metadata) {
  read_chunks(config, metadata);
  if (std::ranges::any_of(config.blocks, [](const LayerConfig& layer) { return layer.attention.chunked; })) {
    read_layers_without_chunks(config, metadata);
  }
  read_experts(config, metadata, {.score = RouteScore::chosen_sigmoid});
  constexpr std::int32_t experts_without_norm = 128;
  for (LayerConfig& layer : config.blocks) {
    ExpertConfig& experts = layer.feed_forward.experts;
    if (experts.count > 0) {
      if (experts.used != 1) {
        throw metadata.error(
            "expert_used_count",
            fmt::format("is {}, but rows are weighted before experts, which is supported for one of a token", experts.used));
      }
      experts.weights_inputs = true;
      experts.shared_width = experts.width;
    }
  }
  const bool normed = metadata.count("expert_count") != experts_without_norm;
  for (LayerConfig& layer : config.blocks) {
    if (normed && layer.attention.rope.kind != RopeKind::none) {
      layer.attention.qk_norm = QkNorm::plain_heads;
      layer.attention.norm_after_turn = true;
    }
  }
}

}  // namespace

Architecture llama4_architecture() { return {"llama4", configure_llama4}; }

}  // namespace rocmforge
