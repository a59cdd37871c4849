#include "models/config/layer_windows.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {
namespace {

constexpr std::string_view window_key = "attention.sliding_window";
constexpr std::string_view pattern_key = "attention.sliding_window_pattern";

/// Every `period`-th layer, the last of each group, has no window.
void clear_every(ModelConfig& config, std::int64_t period) {
  for (std::int64_t index = period - 1; index < config.layers; index += period) {
    config.blocks[static_cast<std::size_t>(index)].attention.window = 0;
  }
}

}  // namespace

void read_windows(ModelConfig& config, MetadataReader& metadata) {
  const std::string key = metadata.architecture() + "." + std::string(window_key);
  const bool has_pattern = metadata.contains(pattern_key);
  if (!metadata.contains(window_key) || metadata.file().integer(key) == 0) {
    return;
  }
  const std::int32_t window = metadata.count(window_key);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.window = window;
  }
  if (!has_pattern) {
    return;
  }
  const std::vector<std::int64_t> pattern =
      *metadata.file().integers(metadata.architecture() + "." + std::string(pattern_key));
  if (pattern.size() == 1) {
    clear_every(config, metadata.count(pattern_key));
    return;
  }
  if (pattern.size() != config.blocks.size()) {
    throw metadata.error(pattern_key, fmt::format("has {} values for {} layers", pattern.size(), config.layers));
  }
  for (std::size_t index = 0; index < pattern.size(); ++index) {
    if (pattern[index] == 0) {
      config.blocks[index].attention.window = 0;
    }
  }
}

void window_but_every(ModelConfig& config, MetadataReader& metadata, std::int32_t period) {
  if (!metadata.contains(pattern_key)) {
    clear_every(config, period);
  }
}

void window_but_first_of_every(ModelConfig& config, MetadataReader& metadata, std::int32_t period) {
  const auto pattern = metadata.contains(pattern_key)
                           ? metadata.file().integers(metadata.architecture() + "." + std::string(pattern_key))
                           : std::nullopt;
  if (pattern && pattern->size() > 1) {
    return;  // a flag for each layer
  }
  const std::int32_t step = pattern ? metadata.count(pattern_key) : period;
  const std::int32_t window = metadata.contains(window_key) ? metadata.count(window_key) : 0;
  for (std::int32_t index = 0; index < config.layers; ++index) {
    config.blocks[static_cast<std::size_t>(index)].attention.window = index % step == 0 ? 0 : window;
  }
}

}  // namespace rocmforge
