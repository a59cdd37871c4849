#include "models/config/rope_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/config/model_tensors.h"
#include "weights/gguf_value.h"
#include "weights/weight_store.h"

namespace rocmforge {
namespace {

/// A factor of 0 means 1.
double read_scaling_factor(MetadataReader& metadata) {
  const std::string key = metadata.contains("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const double factor = metadata.number(key, 1.0);
  if (factor < 0.0) {
    throw metadata.error(key, fmt::format("is {}, it can't be negative", factor));
  }
  return factor == 0.0 ? 1.0 : factor;
}

RopeScaling read_rope_scaling(MetadataReader& metadata, std::int32_t trained_context) {
  RopeScaling scaling;
  scaling.factor = read_scaling_factor(metadata);
  scaling.original_context = metadata.count("rope.scaling.original_context_length", trained_context);
  scaling.attention_factor = metadata.number("rope.scaling.attn_factor", 1.0);
  metadata.contains("rope.scaling.finetuned");  // describes the training, not the computation
  const std::string type = metadata.string("rope.scaling.type", "linear");
  if (type == "linear" || type == "longrope") {  // LongRoPE is in the factors of pairs and in attn_factor
    scaling.kind = RopeScaling::Kind::linear;
  } else if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::yarn;
    scaling.extrapolation = metadata.number("rope.scaling.yarn_ext_factor", 1.0);
    if (names_yarn_magnitude(metadata)) {
      scaling.magnitude = metadata.number("rope.scaling.yarn_attn_factor");
    }
    scaling.beta_fast = metadata.number("rope.scaling.yarn_beta_fast", scaling.beta_fast);
    scaling.beta_slow = metadata.number("rope.scaling.yarn_beta_slow", scaling.beta_slow);
    if (scaling.beta_fast <= 0.0 || scaling.beta_slow <= 0.0) {
      throw metadata.error("rope.scaling.yarn_beta_slow", "and yarn_beta_fast must be positive");
    }
  } else if (type != "none") {
    throw metadata.error("rope.scaling.type",
                         fmt::format("is {}, those supported are none, linear, yarn, longrope", quote(type)));
  }
  return scaling;
}

std::vector<float> read_factors(const GgufFile& file, std::string_view name, std::int32_t pairs) {
  Device host;
  WeightStore store(file, host);
  const float* factors = store.floats(expect_tensor(file, name, {pairs}));
  for (std::int32_t p = 0; p < pairs; ++p) {
    if (!std::isfinite(factors[p]) || factors[p] <= 0.0f) {
      throw Error(fmt::format("{}: tensor {} has the factor {} for pair {}, it must be positive", file.path().string(),
                              quote(name), factors[p], p));
    }
  }
  return {factors, factors + pairs};
}

/// Divisors of the angle of each pair, empty for none.
std::vector<float> find_factors(MetadataReader& metadata, std::int32_t pairs, std::int32_t trained_context,
                                std::int32_t context) {
  const GgufFile& file = metadata.file();
  if (file.find_tensor("rope_freqs.weight") != nullptr) {
    return read_factors(file, "rope_freqs.weight", pairs);
  }
  const std::int32_t original = metadata.count("rope.scaling.original_context_length", trained_context);
  const std::string_view by_length = context > original ? "rope_factors_long.weight" : "rope_factors_short.weight";
  const bool has_either =
      file.find_tensor("rope_factors_long.weight") != nullptr || file.find_tensor("rope_factors_short.weight") != nullptr;
  return has_either ? read_factors(file, by_length, pairs) : std::vector<float>{};
}

}  // namespace

namespace {

double above_one(double base, std::string_view key, MetadataReader& metadata) {
  if (base <= 1.0) {
    throw metadata.error(key, fmt::format("is {}, it must be above 1", base));
  }
  return base;
}

}  // namespace

double read_rope_base(MetadataReader& metadata) {
  constexpr std::string_view key = "rope.freq_base";
  return above_one(metadata.number(key, 10000.0), key, metadata);
}

double read_window_rope_base(MetadataReader& metadata, std::optional<double> absent) {
  constexpr std::string_view key = "rope.freq_base_swa";
  return above_one(absent ? metadata.number(key, *absent) : metadata.number(key), key, metadata);
}

std::int32_t read_window_rotated(MetadataReader& metadata, std::int32_t head_dim) {
  constexpr std::string_view key = "rope.dimension_count_swa";
  const std::int32_t n_rot = metadata.count(key, head_dim);
  if (n_rot % 2 != 0 || n_rot > head_dim) {
    throw metadata.error(key, fmt::format("is {}, it must be even and at most the head length {}", n_rot, head_dim));
  }
  return n_rot;
}

bool names_yarn_magnitude(MetadataReader& metadata) { return metadata.contains("rope.scaling.yarn_attn_factor"); }

RopeConfig read_rope(MetadataReader& metadata, std::int32_t head_dim, std::int32_t trained_context, std::int32_t context,
                     bool whole_pairs) {
  const std::int32_t n_rot = metadata.count("rope.dimension_count", head_dim);
  if (n_rot % 2 != 0 || n_rot > head_dim) {
    throw metadata.error("rope.dimension_count",
                         fmt::format("is {}, it must be even and at most the head length {}", n_rot, head_dim));
  }
  const double base = read_rope_base(metadata);
  const std::vector<float> factors = find_factors(metadata, n_rot / 2, trained_context, context);
  RopeScaling scaling = read_rope_scaling(metadata, trained_context);
  scaling.whole_pairs = whole_pairs;
  return {.n_rot = n_rot,
          .frequencies = std::make_shared<const RopeFrequencies>(rope_frequencies(n_rot, base, scaling, factors))};
}

std::shared_ptr<const RopeFrequencies> read_part_frequencies(MetadataReader& metadata, const ModelConfig& config,
                                                             std::int32_t n_rot) {
  const std::int32_t trained = config.context_length;
  std::vector<float> factors = find_factors(metadata, config.layer(0).attention.rope.n_rot / 2, trained, trained);
  factors.resize(factors.empty() ? 0 : static_cast<std::size_t>(n_rot / 2));
  const RopeScaling scaling = read_rope_scaling(metadata, trained);
  return std::make_shared<const RopeFrequencies>(rope_frequencies(n_rot, read_rope_base(metadata), scaling, factors));
}

std::vector<std::int32_t> rope_axes(std::span<const std::int32_t> sections, RopeSections order) {
  std::vector<std::int32_t> axes;
  for (std::size_t axis = 0; axis < sections.size(); ++axis) {
    axes.insert(axes.end(), static_cast<std::size_t>(sections[axis]), static_cast<std::int32_t>(axis));
  }
  if (order == RopeSections::interleaved) {
    for (std::size_t p = 0; p < axes.size(); ++p) {
      const std::size_t axis = p % 3;
      axes[p] =
          axis < sections.size() && p < 3 * static_cast<std::size_t>(sections[axis]) ? static_cast<std::int32_t>(axis) : 0;
    }
  }
  return axes;
}

void read_rope_sections(ModelConfig& config, MetadataReader& metadata, RopeSections order) {
  constexpr std::string_view key = "rope.dimension_sections";
  if (!metadata.contains(key)) {
    return;
  }
  const std::vector<std::int32_t> sections = metadata.list(key, 0);
  if (sections.size() > max_position_axes) {
    throw metadata.error(key,
                         fmt::format("has {} values, those supported are at most {}", sections.size(), max_position_axes));
  }
  const bool fits = order == RopeSections::contiguous || sections.size() < 4 || sections[3] == 0;
  std::shared_ptr<const std::vector<std::int32_t>> axes;
  for (LayerConfig& layer : config.blocks) {
    const RopeConfig& rope = layer.attention.rope;
    if (layer.mixer != MixerKind::attention || rope.kind == RopeKind::none) {
      continue;
    }
    if (const std::int64_t pairs = std::accumulate(sections.begin(), sections.end(), std::int64_t{0});
        !fits || 2 * pairs != rope.n_rot) {
      throw metadata.error(key, fmt::format("is {}, the sections of {} rotated pairs are needed{}",
                                            fmt::join(sections, ", "), rope.n_rot / 2, fits ? "" : " on three axes"));
    }
    if (axes == nullptr) {
      axes = std::make_shared<const std::vector<std::int32_t>>(rope_axes(sections, order));
    }
    layer.attention.rope.axes = axes;
    config.position_axes = *std::ranges::max_element(*axes) + 1;
  }
}

std::shared_ptr<const RopeFrequencies> plain_frequencies(std::int32_t n_rot, double base) {
  return std::make_shared<const RopeFrequencies>(rope_frequencies(n_rot, base, {}, {}));
}

}  // namespace rocmforge
