#include "models/config/swiglu_config.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace rocmforge {
namespace {

/// [blocks], 0 for none.
std::vector<float> read_limits(const ModelConfig& config, MetadataReader& metadata, std::string_view key) {
  std::vector<float> limits(config.blocks.size(), 0.0f);
  if (!metadata.contains(key)) {
    return limits;
  }
  const std::vector<double> values = metadata.numbers(key, static_cast<std::int32_t>(limits.size()));
  for (std::size_t index = 0; index < limits.size(); ++index) {
    if (values[index] < 0.0) {
      throw metadata.error(key, fmt::format("has the limit {}, it can't be negative", values[index]));
    }
    limits[index] = static_cast<float>(values[index]);
  }
  return limits;
}

}  // namespace

void read_swiglu_limits(ModelConfig& config, MetadataReader& metadata) {
  const std::vector<float> of_experts = read_limits(config, metadata, "swiglu_clamp_exp");
  const std::vector<float> of_dense = read_limits(config, metadata, "swiglu_clamp_shexp");
  for (std::size_t index = 0; index < config.blocks.size(); ++index) {
    FeedForwardConfig& part = config.blocks[index].feed_forward;
    part.swiglu_limit = of_dense[index];
    part.experts.swiglu_limit = part.experts.count > 0 ? of_experts[index] : 0.0f;
  }
}

}  // namespace rocmforge
