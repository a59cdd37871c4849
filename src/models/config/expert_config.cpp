#include "models/config/expert_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/config/model_tensors.h"

namespace rocmforge {
namespace {

/// A count that may be 0.
std::int32_t count_or_none(MetadataReader& metadata, std::string_view key) {
  return metadata.number(key, 0.0) == 0.0 ? 0 : metadata.count(key);
}

RouteScore read_score(MetadataReader& metadata, RouteScore fallback) {
  const std::int32_t number = count_or_none(metadata, "expert_gating_func");
  switch (number) {
    case 0:
      return fallback;
    case 1:
      return RouteScore::softmax;
    case 2:
      return RouteScore::sigmoid;
    case 3:
      return RouteScore::chosen_softmax;
    default:
      throw metadata.error("expert_gating_func",
                           fmt::format("is {}, of the functions only 1, 2 and 3 are supported", number));
  }
}

/// The width that the file's tensors have, or `fallback` if it has none with all experts of a layer.
std::int32_t width_of_tensors(const GgufFile& file, std::int32_t fallback) {
  constexpr std::int64_t widest = 1 << 30;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::int64_t width = tensor.tensor.shape.squeezed().cols();
    if (tensor.name.ends_with(".ffn_down_exps.weight") && width < widest) {
      return static_cast<std::int32_t>(width);
    }
  }
  return fallback;
}

/// Older files lack the key. Their feed-forward length is that of one expert or of all that a token uses.
std::int32_t read_width(const ModelConfig& config, MetadataReader& metadata) {
  constexpr std::string_view key = "expert_feed_forward_length";
  const auto fed = std::ranges::find_if(config.blocks, [](const LayerConfig& b) { return b.feed_forward.width > 0; });
  if (fed == config.blocks.end() || metadata.contains(key)) {
    return metadata.count(key);
  }
  return width_of_tensors(metadata.file(), fed->feed_forward.width);
}

/// Groups of experts: all of the same size, with enough chosen groups for the experts that a token uses.
void read_groups(ExpertConfig& experts, MetadataReader& metadata) {
  experts.groups = metadata.contains("expert_group_count") ? count_or_none(metadata, "expert_group_count") : 1;
  experts.groups = std::max(experts.groups, 1);
  if (experts.groups == 1) {
    metadata.contains("expert_group_used_count");
    return;
  }
  experts.groups_used = metadata.count("expert_group_used_count");
  if (experts.count % experts.groups != 0) {
    throw metadata.error("expert_group_count",
                         fmt::format("is {}, which does not divide the {} experts", experts.groups, experts.count));
  }
  if (experts.groups_used > experts.groups || experts.used > experts.count / experts.groups * experts.groups_used) {
    throw metadata.error("expert_group_used_count",
                         fmt::format("is {}: of {} groups of {} experts {} are to be used", experts.groups_used,
                                     experts.groups, experts.count / experts.groups, experts.used));
  }
}

std::int32_t read_shared_width(const ExpertConfig& experts, MetadataReader& metadata) {
  const std::int32_t count = count_or_none(metadata, "expert_shared_count");
  if (metadata.contains("expert_shared_feed_forward_length")) {
    return count_or_none(metadata, "expert_shared_feed_forward_length");
  }
  const std::int64_t width = std::int64_t{count} * experts.width;
  constexpr std::int64_t widest = 1 << 30;
  if (width > widest) {
    throw metadata.error("expert_shared_count", fmt::format("is {}, with {} of each", count, experts.width));
  }
  return static_cast<std::int32_t>(width);
}

}  // namespace

void read_experts(ModelConfig& config, MetadataReader& metadata, const ExpertDefaults& defaults) {
  metadata.contains("expert_count");
  metadata.contains("expert_used_count");
  if (defaults.may_be_dense && metadata.number("expert_count", 0.0) == 0.0) {
    return;
  }
  ExpertConfig experts;
  experts.count = metadata.count("expert_count");
  experts.used = metadata.count("expert_used_count");
  if (experts.used > experts.count) {
    throw metadata.error("expert_used_count", fmt::format("is {}, but there are {} experts", experts.used, experts.count));
  }
  experts.width = read_width(config, metadata);
  experts.score = read_score(metadata, defaults.score);
  experts.normalise = metadata.flag("expert_weights_norm", defaults.normalise);
  const double scale = metadata.number("expert_weights_scale", 1.0);
  experts.scale = scale == 0.0 ? 1.0f : static_cast<float>(scale);
  read_groups(experts, metadata);
  experts.shared_width = read_shared_width(experts, metadata);
  experts.shared_gate = defaults.shared_gate && experts.shared_width > 0;
  experts.needs_bias = defaults.needs_bias;
  const std::int32_t dense = count_or_none(metadata, "leading_dense_block_count");
  const std::int32_t step = metadata.count("interleave_moe_layer_step", 1);
  const auto blocks = static_cast<std::int32_t>(config.blocks.size());
  for (std::int32_t index = dense; index < blocks; ++index) {
    if ((index + 1) % step == 0) {
      config.blocks[static_cast<std::size_t>(index)].feed_forward.experts = experts;
    }
  }
}

void find_dense_layers(ModelConfig& config, const GgufFile& file) {
  for (std::size_t index = 0; index < config.blocks.size(); ++index) {
    if (file.find_tensor(block_tensor(static_cast<int>(index), "ffn_gate_inp.weight")) == nullptr) {
      config.blocks[index].feed_forward.experts = {};
    }
  }
}

}  // namespace rocmforge
