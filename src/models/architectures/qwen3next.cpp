#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/config/architecture.h"
#include "models/config/expert_config.h"
#include "models/config/mtp_config.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// A count that tensors of the file confirm. The bound keeps products of a damaged file's counts small.
std::int32_t bounded_count(MetadataReader& metadata, std::string_view key) {
  constexpr std::int32_t most = 65536;
  const std::int32_t count = metadata.count(key);
  if (count > most) {
    throw metadata.error(key, fmt::format("is {}, at most {} is possible", count, most));
  }
  return count;
}

DeltaNetConfig read_delta_net(MetadataReader& metadata) {
  DeltaNetConfig config;
  config.key_heads = bounded_count(metadata, "ssm.group_count");
  config.value_heads = bounded_count(metadata, "ssm.time_step_rank");
  config.key_dim = bounded_count(metadata, "ssm.state_size");
  const std::int32_t values = metadata.count("ssm.inner_size");
  if (values % config.value_heads != 0) {
    throw metadata.error("ssm.inner_size",
                         fmt::format("is {}, not a multiple of the {} value heads", values, config.value_heads));
  }
  config.value_dim = values / config.value_heads;
  if (config.value_heads % config.key_heads != 0) {
    throw metadata.error("ssm.time_step_rank",
                         fmt::format("is {}, not a multiple of the {} key heads", config.value_heads, config.key_heads));
  }
  config.taps = metadata.count("ssm.conv_kernel");
  constexpr std::int32_t most_taps = 1024;
  if (config.taps < 2 || config.taps > most_taps) {
    throw metadata.error("ssm.conv_kernel", fmt::format("is {}, it must be in [2, {}]", config.taps, most_taps));
  }
  return config;
}

/// Which layers are gated delta nets, from an array; without it every `full_attention_interval`-th layer is attention. MTP
/// blocks are attention.
std::vector<bool> read_recurrent_layers(const ModelConfig& config, MetadataReader& metadata) {
  constexpr std::string_view key = "attention.recurrent_layers";
  const std::int32_t interval = metadata.count("full_attention_interval", 4);
  std::vector<bool> recurrent(static_cast<std::size_t>(config.layers));
  if (!metadata.contains(key)) {
    for (std::size_t index = 0; index < recurrent.size(); ++index) {
      recurrent[index] = (index + 1) % static_cast<std::size_t>(interval) != 0;
    }
    return recurrent;
  }
  const auto flags = metadata.file().integers(metadata.architecture() + "." + std::string(key));
  if (!flags || flags->size() < recurrent.size()) {
    throw metadata.error(key, fmt::format("has {} values for {} layers", flags ? flags->size() : 0, recurrent.size()));
  }
  for (std::size_t index = 0; index < recurrent.size(); ++index) {
    recurrent[index] = (*flags)[index] != 0;
  }
  return recurrent;
}

/// Qwen3-Next: gated delta nets, and every few layers attention whose heads have a gate. The norm before the feed-forward
/// part has the tensor name of a post-attention norm.
void configure_hybrid(ModelConfig& config, MetadataReader& metadata, bool tiled) {
  separate_mtp_blocks(config, metadata);
  DeltaNetConfig delta_net = read_delta_net(metadata);
  delta_net.tiled = tiled;
  const std::vector<bool> recurrent = read_recurrent_layers(config, metadata);
  for (std::size_t index = 0; index < config.blocks.size(); ++index) {
    LayerConfig& layer = config.blocks[index];
    layer.graph.ffn_norm = "post_attention_norm";
    if (index < recurrent.size() && recurrent[index]) {
      layer.mixer = MixerKind::delta_net;
      layer.delta_net = delta_net;
      continue;
    }
    if (layer.attention.kv_heads == 0) {
      throw metadata.error("attention.head_count_kv", fmt::format("is 0 in layer {}, which attends", index));
    }
    layer.attention.rope.kind = RopeKind::half;
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.output_gate = true;
  }
}

void configure_qwen3next(ModelConfig& config, MetadataReader& metadata) {
  configure_hybrid(config, metadata, false);
  read_experts(config, metadata, {.normalise = true, .shared_gate = true});
}

/// Qwen3.5: converters store its value heads in another order. A token of a text has the same position in all dimensions.
void configure_qwen35(ModelConfig& config, MetadataReader& metadata) {
  configure_hybrid(config, metadata, true);
  read_rope_sections(config, metadata, RopeSections::interleaved);
}

void configure_qwen35moe(ModelConfig& config, MetadataReader& metadata) {
  configure_qwen35(config, metadata);
  read_experts(config, metadata, {.normalise = true, .shared_gate = true});
}

}  // namespace

Architecture qwen3next_architecture() { return {"qwen3next", configure_qwen3next, NormKind::rms, true}; }
Architecture qwen35_architecture() { return {"qwen35", configure_qwen35, NormKind::rms, true}; }
Architecture qwen35moe_architecture() { return {"qwen35moe", configure_qwen35moe, NormKind::rms, true}; }

}  // namespace rocmforge
