#include "models/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "base/log.h"
#include "models/architecture.h"
#include "models/metadata_reader.h"
#include "models/model_tensors.h"
#include "models/rope_frequencies.h"
#include "weights/gguf_value.h"
#include "weights/weight_store.h"

namespace rocmforge {
namespace {

/// Mixtures of experts share their architecture's name with dense models; computing one as the other would give nonsense.
void refuse_experts(MetadataReader& metadata) {
  metadata.contains("expert_used_count");
  const std::string key = metadata.architecture() + ".expert_count";
  if (metadata.contains("expert_count") && metadata.file().integer(key) > 0) {
    throw metadata.error("expert_count",
                         fmt::format("is {}, mixtures of experts are not supported", metadata.file().integer(key)));
  }
}

/// Factors that other architectures use and these compute without: a value that would change the result is refused.
void refuse_factors(MetadataReader& metadata) {
  for (const char* key : {"attention.scale", "attn_logit_softcapping", "final_logit_softcapping", "logit_scale",
                          "residual_scale", "embedding_scale", "rope.scaling.yarn_log_multiplier"}) {
    const double value = metadata.number(key, 0.0);
    const bool neutral = value == 0.0 || (value == 1.0 && std::string_view(key).ends_with("_scale"));
    if (!neutral) {
      throw metadata.error(key, fmt::format("is {}, it changes the computation and is not supported", value));
    }
  }
}

void read_sizes(ModelConfig& config, MetadataReader& metadata) {
  config.layers = metadata.count("block_count");
  config.context_length = metadata.count("context_length");
  config.hidden = metadata.count("embedding_length");
  config.ffn = metadata.count("feed_forward_length");
  config.q_heads = metadata.count("attention.head_count");
  config.kv_heads = metadata.count("attention.head_count_kv", config.q_heads);
  if (config.q_heads % config.kv_heads != 0) {
    throw metadata.error("attention.head_count_kv",
                         fmt::format("is {}, which does not divide the {} query heads", config.kv_heads, config.q_heads));
  }
  if (!metadata.contains("attention.key_length") && config.hidden % config.q_heads != 0) {
    throw metadata.error("attention.head_count",
                         fmt::format("is {}, which does not divide embedding_length {}", config.q_heads, config.hidden));
  }
  config.head_dim = metadata.count("attention.key_length", config.hidden / config.q_heads);
  // Longer heads than this don't exist; the bound keeps a damaged file from asking for gigabytes.
  constexpr std::int32_t longest_head = 65536;
  if (config.head_dim > longest_head) {
    throw metadata.error("attention.key_length",
                         fmt::format("is {}, at most {} is possible", config.head_dim, longest_head));
  }
  const std::int32_t value_length = metadata.count("attention.value_length", config.head_dim);
  if (value_length != config.head_dim) {
    throw metadata.error(
        "attention.value_length",
        fmt::format("is {}, different from the key length {}, which is not supported", value_length, config.head_dim));
  }
  const double eps = metadata.number("attention.layer_norm_rms_epsilon");
  if (eps < 0.0) {
    throw metadata.error("attention.layer_norm_rms_epsilon", fmt::format("is {}, it can't be negative", eps));
  }
  config.norm_eps = static_cast<float>(eps);
}

/// A window of 0 means none.
void read_sliding_window(ModelConfig& config, MetadataReader& metadata) {
  if (metadata.contains("attention.sliding_window") &&
      metadata.file().integer(metadata.architecture() + ".attention.sliding_window") != 0) {
    config.sliding_window = metadata.count("attention.sliding_window");
  }
  if (config.sliding_window > 0 && metadata.contains("attention.sliding_window_pattern")) {
    throw metadata.error("attention.sliding_window_pattern",
                         "asks for a window in some layers only, which is not supported");
  }
}

/// A factor of 0 means 1.
double read_scaling_factor(MetadataReader& metadata) {
  const std::string key = metadata.contains("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const double factor = metadata.number(key, 1.0);
  if (factor < 0.0) {
    throw metadata.error(key, fmt::format("is {}, it can't be negative", factor));
  }
  return factor == 0.0 ? 1.0 : factor;
}

RopeScaling read_rope_scaling(const ModelConfig& config, MetadataReader& metadata) {
  RopeScaling scaling;
  scaling.factor = read_scaling_factor(metadata);
  scaling.original_context = metadata.count("rope.scaling.original_context_length", config.context_length);
  scaling.attention_factor =
      metadata.number("rope.scaling.attn_factor", 1.0) * metadata.number("rope.scaling.yarn_attn_factor", 1.0);
  metadata.contains("rope.scaling.finetuned");  // says how the model was trained, not how it is run
  const std::string type = metadata.string("rope.scaling.type", "linear");
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::linear;
  } else if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::yarn;
    scaling.extrapolation = metadata.number("rope.scaling.yarn_ext_factor", 1.0);
    scaling.beta_fast = metadata.number("rope.scaling.yarn_beta_fast", scaling.beta_fast);
    scaling.beta_slow = metadata.number("rope.scaling.yarn_beta_slow", scaling.beta_slow);
    if (scaling.beta_fast <= 0.0 || scaling.beta_slow <= 0.0) {
      throw metadata.error("rope.scaling.yarn_beta_slow", "and yarn_beta_fast must be positive");
    }
  } else if (type != "none") {
    throw metadata.error("rope.scaling.type", fmt::format("is {}, those supported are none, linear, yarn", quote(type)));
  }
  return scaling;
}

std::vector<float> read_rope_factors(const GgufFile& file, std::int32_t pairs) {
  Device host;
  WeightStore store(file, host);
  const float* factors = store.floats(expect_tensor(file, "rope_freqs.weight", {pairs}));
  for (std::int32_t p = 0; p < pairs; ++p) {
    if (!std::isfinite(factors[p]) || factors[p] <= 0.0f) {
      throw Error(fmt::format("{}: tensor 'rope_freqs.weight' has the factor {} for pair {}, it must be positive",
                              file.path().string(), factors[p], p));
    }
  }
  return {factors, factors + pairs};
}

void read_rope(ModelConfig& config, MetadataReader& metadata) {
  config.n_rot = metadata.count("rope.dimension_count", config.head_dim);
  if (config.n_rot % 2 != 0 || config.n_rot > config.head_dim) {
    throw metadata.error("rope.dimension_count", fmt::format("is {}, it must be even and at most the head length {}",
                                                             config.n_rot, config.head_dim));
  }
  const double base = metadata.number("rope.freq_base", 10000.0);
  if (base <= 1.0) {
    throw metadata.error("rope.freq_base", fmt::format("is {}, it must be above 1", base));
  }
  std::vector<float> factors;
  if (metadata.file().find_tensor("rope_freqs.weight") != nullptr) {
    factors = read_rope_factors(metadata.file(), config.n_rot / 2);
  }
  const RopeFrequencies rope = rope_frequencies(config.n_rot, base, read_rope_scaling(config, metadata), factors);
  config.inverse_frequency = rope.inverse_frequency;
  config.rope_magnitude = rope.magnitude;
}

/// The tokenizer decides: a head with more rows would propose tokens that have no text.
std::int32_t vocabulary_size(MetadataReader& metadata) {
  const GgufFile& file = metadata.file();
  const std::int64_t rows = file.tensor("token_embd.weight").tensor.shape.rows();
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

ModelConfig ModelConfig::from_gguf(const GgufFile& file) {
  ModelConfig config;
  config.architecture = file.string("general.architecture");
  config.name = file.string("general.name", "");
  const Architecture& architecture =
      with_context(file.path().string(), [&]() -> const Architecture& { return find_architecture(config.architecture); });
  MetadataReader metadata(file, config.architecture);
  refuse_experts(metadata);
  refuse_factors(metadata);
  read_sizes(config, metadata);
  read_sliding_window(config, metadata);
  read_rope(config, metadata);
  architecture.configure(config, metadata);
  config.vocab = vocabulary_size(metadata);
  if (const auto unread = metadata.unread(); !unread.empty()) {
    log_warning("{}: keys without effect: {}", file.path().string(), fmt::join(unread, ", "));
  }
  return config;
}

}  // namespace rocmforge
