#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// Applies the file's multiplier m: YaRN's magnitude 1 + 0.1 ln f is divided by 1 + 0.1 m ln f, one that the file gives is
/// not.
std::shared_ptr<const RopeFrequencies> with_multiplier(const RopeFrequencies& frequencies, MetadataReader& metadata) {
  RopeFrequencies own = frequencies;
  const double multiplier = metadata.number("rope.scaling.yarn_log_multiplier", 0.0);
  if (multiplier < 0.0) {
    throw metadata.error("rope.scaling.yarn_log_multiplier", fmt::format("is {}, it can't be negative", multiplier));
  }
  if (metadata.string("rope.scaling.type", "none") == "yarn" && !names_yarn_magnitude(metadata)) {
    const double stretch = std::log(std::max(metadata.number("rope.scaling.factor", 1.0), 1.0));
    own.magnitude = static_cast<float>(double{own.magnitude} / (1.0 + 0.1 * multiplier * stretch));
  }
  return std::make_shared<const RopeFrequencies>(std::move(own));
}

/// Ministral 3, Devstral 2 and Mistral Large 3: llama's layer; queries are scaled up with their position beyond the original
/// training context. Experts as in Mixtral.
void configure_mistral3(ModelConfig& config, MetadataReader& metadata) {
  const auto frequencies = with_multiplier(*config.layer(0).attention.rope.frequencies, metadata);
  const double temperature = metadata.number("attention.temperature_scale", 0.0);
  const std::int32_t length = metadata.count("rope.scaling.original_context_length", config.context_length);
  for (LayerConfig& layer : config.blocks) {
    layer.attention.rope.frequencies = frequencies;
    layer.attention.temperature_scale = static_cast<float>(temperature);
    layer.attention.temperature_length = length;
  }
  read_experts(config, metadata, {.normalise = true, .may_be_dense = true});
}

}  // namespace

Architecture mistral3_architecture() { return {"mistral3", configure_mistral3}; }

}  // namespace rocmforge
