#include "models/config/latent_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>

#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

/// No model has longer rows. The bound keeps a damaged file from causing allocations of gigabytes.
constexpr std::int32_t longest_row = 65536;

std::int32_t read_length(MetadataReader& metadata, std::string_view key) {
  const std::int32_t length = metadata.count(key);
  if (length > longest_row) {
    throw metadata.error(key, fmt::format("is {}, at most {} is possible", length, longest_row));
  }
  return length;
}

/// A key that must have this value if it exists.
void expect_count(MetadataReader& metadata, std::string_view key, std::int32_t expected, std::string_view why) {
  if (const std::int32_t value = metadata.count(key, expected); value != expected) {
    throw metadata.error(key, fmt::format("is {}, expected {}, {}", value, expected, why));
  }
}

/// The KV heads that a file names: `expected`, or 0 in layers with another mixer.
void expect_kv_heads(MetadataReader& metadata, std::int32_t layers, std::int32_t expected, std::string_view why) {
  constexpr std::string_view key = "attention.head_count_kv";
  if (!metadata.contains(key)) {
    return;
  }
  for (const std::int32_t heads : metadata.counts(key, layers, 0)) {
    if (heads != expected && heads != 0) {
      throw metadata.error(key, fmt::format("is {}, expected {}, {}", heads, expected, why));
    }
  }
}

/// The file's description of heads; gives the length of a head's key.
std::int32_t read_head_lengths(const ModelConfig& config, MetadataReader& metadata, std::int32_t q_heads, std::int32_t n_rot,
                               bool mixes_otherwise, LatentConfig& latent) {
  const bool by_row = metadata.contains("attention.key_length_mla");
  const std::int32_t key_length = read_length(metadata, by_row ? "attention.key_length_mla" : "attention.key_length");
  latent.value_dim = read_length(metadata, by_row ? "attention.value_length_mla" : "attention.value_length");
  if (key_length <= n_rot) {
    throw metadata.error("rope.dimension_count", fmt::format("is {}, not less than the key length {}", n_rot, key_length));
  }
  latent.plain_dim = key_length - n_rot;
  if (by_row) {
    expect_count(metadata, "attention.key_length", latent.rank + n_rot, "the latent's length and what turns");
    if (mixes_otherwise) {
      metadata.contains("attention.value_length");
    } else {
      expect_count(metadata, "attention.value_length", latent.rank, "the latent's length");
    }
    expect_kv_heads(metadata, config.layers, 1, "all heads share the latent");
  } else {
    expect_kv_heads(metadata, config.layers, q_heads, "the number of query heads");
  }
  return key_length;
}

/// Moves YaRN's factor from cos and sin to the scores.
float read_scale(MetadataReader& metadata, std::int32_t key_length, RopeConfig& rope) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(key_length));
  const double multiplier = metadata.number("rope.scaling.yarn_log_multiplier", 0.0);
  if (multiplier == 0.0) {
    return static_cast<float>(scale);
  }
  if (multiplier < 0.0 || metadata.string("rope.scaling.type", "none") != "yarn") {
    throw metadata.error("rope.scaling.yarn_log_multiplier",
                         fmt::format("is {}, it must be positive and belong to rope.scaling.type yarn", multiplier));
  }
  const double stretch = std::log(std::max(metadata.number("rope.scaling.factor", 1.0), 1.0));
  if (!names_yarn_magnitude(metadata)) {
    RopeFrequencies frequencies = *rope.frequencies;
    frequencies.magnitude /= static_cast<float>(1.0 + 0.1 * stretch);
    rope.frequencies = std::make_shared<const RopeFrequencies>(std::move(frequencies));
  }
  const double mscale = 1.0 + multiplier * stretch;
  return static_cast<float>(mscale * mscale * scale);
}

}  // namespace

AttentionConfig read_latent_attention(const ModelConfig& config, MetadataReader& metadata, std::int32_t q_heads,
                                      std::int32_t context, bool mixes_otherwise) {
  AttentionConfig attention;
  attention.kv_heads = 1;
  attention.latent.rank = read_length(metadata, "attention.kv_lora_rank");
  if (metadata.number("attention.q_lora_rank", 0.0) != 0.0) {
    attention.latent.q_rank = read_length(metadata, "attention.q_lora_rank");
  }
  metadata.require("rope.dimension_count");
  attention.rope = read_rope(metadata, longest_row, config.context_length, context);
  attention.head_dim = attention.latent.rank + attention.rope.n_rot;
  const std::int32_t key_length =
      read_head_lengths(config, metadata, q_heads, attention.rope.n_rot, mixes_otherwise, attention.latent);
  attention.scale = read_scale(metadata, key_length, attention.rope);
  attention.temperature_scale = static_cast<float>(metadata.number("attention.temperature_scale", 0.0));
  const std::int32_t original = metadata.count("rope.scaling.original_context_length", config.context_length);
  attention.temperature_length = metadata.count("attention.temperature_length", original);
  return attention;
}

}  // namespace rocmforge
