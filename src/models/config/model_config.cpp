#include "models/config/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "models/config/architecture.h"
#include "models/config/encoder_config.h"
#include "models/config/file_kind.h"
#include "models/config/latent_config.h"
#include "models/config/layer_windows.h"
#include "models/config/metadata_reader.h"
#include "models/config/rope_config.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

bool has_experts(MetadataReader& metadata) {
  return metadata.contains("expert_count") && metadata.file().integer(metadata.architecture() + ".expert_count") > 0;
}

/// Keys that converters write for some models although nothing depends on them: the order of Falcon's rows, which is always
/// the same one, the epsilon of the other kind of norm, and numbers of experts where there are none.
void pass_over_idle_keys(MetadataReader& metadata) {
  for (const char* key : {"tensor_data_layout", "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"}) {
    metadata.contains(key);
  }
  if (!has_experts(metadata)) {
    for (const char* key : {"expert_used_count", "expert_feed_forward_length", "expert_shared_feed_forward_length"}) {
      metadata.contains(key);
    }
  }
}

/// Refuses a file with experts that the architecture does not read: without them the results would be wrong.
void refuse_experts(MetadataReader& metadata) {
  if (metadata.asked("expert_count")) {
    return;
  }
  if (has_experts(metadata)) {
    const std::int64_t count = metadata.file().integer(metadata.architecture() + ".expert_count");
    throw metadata.error("expert_count", fmt::format("is {}, experts are not supported in this architecture", count));
  }
}

/// Refuses factors that the architecture does not read, if their value would change the result.
void refuse_factors(MetadataReader& metadata) {
  for (const char* key : {"logit_scale", "rope.scaling.yarn_log_multiplier", "attention.temperature_scale"}) {
    if (metadata.asked(key)) {
      continue;
    }
    const double value = metadata.number(key, 0.0);
    const bool neutral = value == 0.0 || (value == 1.0 && std::string_view(key) == "logit_scale");
    if (!neutral) {
      throw metadata.error(key, fmt::format("is {}, it changes the computation and is not supported", value));
    }
  }
}

std::optional<PoolingType> read_pooling(MetadataReader& metadata) {
  constexpr std::string_view key = "pooling_type";
  if (!metadata.contains(key)) {
    return std::nullopt;
  }
  const double value = metadata.number(key);
  if (!(value >= 0.0 && value <= 4.0) || value != std::floor(value)) {
    throw metadata.error(key, fmt::format("is {}, it must be 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank)", value));
  }
  return static_cast<PoolingType>(value);
}

/// A positive number, or 0 when the key is absent.
float read_factor(MetadataReader& metadata, std::string_view key) {
  const double value = metadata.number(key, 0.0);
  if (value < 0.0) {
    throw metadata.error(key, fmt::format("is {}, it can't be negative", value));
  }
  return static_cast<float>(value);
}

/// A positive number, or 1 when the key is absent.
float read_multiplier(MetadataReader& metadata, std::string_view key) {
  const float value = read_factor(metadata, key);
  return value == 0.0f ? 1.0f : value;
}

void read_sizes(ModelConfig& config, MetadataReader& metadata) {
  config.layers = metadata.count("block_count");
  config.context_length = metadata.count("context_length");
  config.hidden = metadata.count("embedding_length");
  // Every layer has tensors. The bound keeps a damaged file from causing allocations of gigabytes.
  if (const std::size_t tensors = metadata.file().tensors().size(); static_cast<std::size_t>(config.layers) > tensors) {
    throw metadata.error("block_count", fmt::format("is {}, but the file has {} tensors", config.layers, tensors));
  }
  const bool rms = config.norm_kind == NormKind::rms;
  const std::string_view epsilon = rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
  metadata.require(epsilon);
  config.norm_eps = read_factor(metadata, epsilon);
  config.embedding_scale = read_multiplier(metadata, "embedding_scale");
  config.logit_soft_cap = read_factor(metadata, "final_logit_softcapping");
}

std::int32_t read_head_dim(MetadataReader& metadata, std::int32_t hidden, std::int32_t q_heads) {
  if (!metadata.contains("attention.key_length") && hidden % q_heads != 0) {
    throw metadata.error("attention.head_count",
                         fmt::format("is {}, which does not divide embedding_length {}", q_heads, hidden));
  }
  const std::int32_t head_dim = metadata.count("attention.key_length", hidden / q_heads);
  // No model has longer heads. The bound keeps a damaged file from causing allocations of gigabytes.
  constexpr std::int32_t longest_head = 65536;
  if (head_dim > longest_head) {
    throw metadata.error("attention.key_length", fmt::format("is {}, at most {} is possible", head_dim, longest_head));
  }
  const std::int32_t value_length = metadata.count("attention.value_length", head_dim);
  if (value_length != head_dim) {
    throw metadata.error(
        "attention.value_length",
        fmt::format("is {}, different from the key length {}, which is not supported", value_length, head_dim));
  }
  return head_dim;
}

/// Numbers of attention that all layers share.
AttentionConfig read_attention(const ModelConfig& config, MetadataReader& metadata, std::int32_t q_heads,
                               std::int32_t context) {
  AttentionConfig attention;
  attention.head_dim = read_head_dim(metadata, config.hidden, q_heads);
  attention.scale = read_factor(metadata, "attention.scale");
  attention.soft_cap = read_factor(metadata, "attn_logit_softcapping");
  attention.rope = read_rope(metadata, attention.head_dim, config.context_length, context);
  return attention;
}

/// KV heads of each layer; 0 where the layer has another mixer.
std::vector<std::int32_t> read_kv_heads(const std::vector<std::int32_t>& q_heads, MetadataReader& metadata,
                                        bool mixes_otherwise) {
  constexpr std::string_view key = "attention.head_count_kv";
  if (!metadata.contains(key)) {
    return q_heads;
  }
  const std::vector<std::int32_t> kv_heads =
      metadata.counts(key, static_cast<std::int32_t>(q_heads.size()), mixes_otherwise ? 0 : 1);
  for (std::size_t index = 0; index < q_heads.size(); ++index) {
    if (kv_heads[index] > 0 && (q_heads[index] == 0 || q_heads[index] % kv_heads[index] != 0)) {
      throw metadata.error(key,
                           fmt::format("is {}, which does not divide the {} query heads", kv_heads[index], q_heads[index]));
    }
  }
  return kv_heads;
}

void read_layers(ModelConfig& config, MetadataReader& metadata, std::int32_t context, const Architecture& architecture) {
  // If all layers have experts, files may omit the width of dense layers.
  const bool experts_alone = !metadata.contains("feed_forward_length") && metadata.contains("expert_feed_forward_length");
  const std::string_view width_key = experts_alone ? "expert_feed_forward_length" : "feed_forward_length";
  const std::int32_t least = architecture.single_parts ? 0 : 1;
  const std::vector<std::int32_t> widths = metadata.counts(width_key, config.layers, least);
  const std::vector<std::int32_t> q_heads = metadata.counts("attention.head_count", config.layers, least);
  const auto attending = std::ranges::find_if(q_heads, [](std::int32_t heads) { return heads > 0; });
  const AttentionConfig common =
      attending == q_heads.end() ? AttentionConfig{}
      : architecture.latent      ? read_latent_attention(config, metadata, *attending, context, architecture.mixes_otherwise)
                                 : read_attention(config, metadata, *attending, context);
  std::vector<std::int32_t> kv_heads = read_kv_heads(q_heads, metadata, architecture.mixes_otherwise);
  if (architecture.latent) {
    std::ranges::transform(kv_heads, kv_heads.begin(), [](std::int32_t heads) { return std::min(heads, 1); });
  }
  const float residual_scale = read_multiplier(metadata, "residual_scale");
  config.blocks.resize(static_cast<std::size_t>(config.layers));
  for (std::size_t index = 0; index < config.blocks.size(); ++index) {
    LayerConfig& layer = config.blocks[index];
    layer.attention = common;
    layer.attention.q_heads = q_heads[index];
    layer.attention.kv_heads = kv_heads[index];
    layer.feed_forward.width = widths[index];
    layer.graph.residual_scale = residual_scale;
  }
  read_windows(config, metadata);
}

/// The tokenizer gives the size. With more rows in the head, tokens without a text could be drawn.
std::int32_t vocabulary_size(MetadataReader& metadata) {
  const GgufFile& file = metadata.file();
  const std::int64_t rows = file.tensor("token_embd.weight").tensor.shape.squeezed().rows();
  const std::vector<std::string>* tokens = file.strings("tokenizer.ggml.tokens");
  const std::int64_t vocab = metadata.contains("vocab_size") ? metadata.count("vocab_size") : rows;
  const std::int64_t size = tokens != nullptr ? static_cast<std::int64_t>(tokens->size()) : vocab;
  if (size < 1 || size > std::numeric_limits<std::int32_t>::max()) {
    throw Error(
        fmt::format("{}: the vocabulary has {} tokens, it must have between 1 and 2^31", file.path().string(), size));
  }
  return static_cast<std::int32_t>(size);
}

}  // namespace

ModelConfig ModelConfig::from_gguf(const GgufFile& file, std::int32_t context) {
  if (const std::string kind = other_file_kind(file); !kind.empty()) {
    throw Error(fmt::format("{}: this is no model but {}", file.path().string(), kind));
  }
  const std::string name = file.string("general.architecture");
  const Architecture& architecture =
      with_context(file.path().string(), [&]() -> const Architecture& { return find_architecture(name); });
  return read_config(file, architecture, context);
}

ModelConfig read_config(const GgufFile& file, const Architecture& architecture, std::int32_t context) {
  ModelConfig config;
  config.architecture = architecture.name;
  config.name = file.string("general.name", "");
  MetadataReader metadata(file, config.architecture);
  config.norm_kind = architecture.norm;
  read_sizes(config, metadata);
  read_layers(config, metadata, context > 0 ? context : config.context_length, architecture);
  architecture.configure(config, metadata);
  refuse_experts(metadata);
  pass_over_idle_keys(metadata);
  refuse_factors(metadata);
  config.pooling = read_pooling(metadata);
  read_encoder(config, metadata);
  config.vocab = vocabulary_size(metadata);
  if (const auto unread = metadata.unread(); !unread.empty()) {
    log_warning("{}: keys without effect: {}", file.path().string(), fmt::join(unread, ", "));
  }
  return config;
}

}  // namespace rocmforge
