#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "models/architectures/gemma_common.h"
#include "models/config/architecture.h"
#include "models/config/layer_windows.h"
#include "models/config/model_tensors.h"
#include "models/config/rope_config.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::int32_t streams = 4;  // converters write no other number, and MixStreams knows no other

void read_streams(ModelConfig& config, MetadataReader& metadata) {
  if (const std::int32_t inputs = metadata.count("altup.num_inputs"); inputs != streams) {
    throw metadata.error("altup.num_inputs", fmt::format("is {}, {} are supported", inputs, streams));
  }
  if (const double active = metadata.number("altup.active_idx"); active != 0.0) {
    throw metadata.error("altup.active_idx", fmt::format("is {}, only the first stream may be the active one", active));
  }
  config.residual_streams = streams;
}

/// How many standard deviations above their mean gates begin to count. Files have minus infinity for layers in which all do.
void read_cuts(ModelConfig& config, MetadataReader& metadata) {
  constexpr std::string_view key = "activation_sparsity_scale";
  metadata.require(key);
  const std::string full_key = config.architecture + "." + std::string(key);
  const std::vector<double> cuts = metadata.file().numbers(full_key).value_or(std::vector<double>());
  if (std::ssize(cuts) != config.layers) {
    throw metadata.error(key, fmt::format("has {} values for {} layers", cuts.size(), config.layers));
  }
  for (std::size_t index = 0; index < cuts.size(); ++index) {
    const double cut = cuts[index];
    if (std::isfinite(cut)) {
      config.blocks[index].feed_forward.cut = static_cast<float>(cut);
    } else if (!(cut < 0.0)) {
      throw metadata.error(key, fmt::format("has the value {}", cut));
    }
  }
}

/// The rank has no key.
std::int32_t laurel_rank(const GgufFile& file) {
  return static_cast<std::int32_t>(file.tensor(block_tensor(0, "laurel_l.weight")).tensor.shape.squeezed().rows());
}

/// Gemma 3n: four residual streams, of which the parts of a block work on one; a learned residual beside attention, with
/// which its sum is divided by the root of two; embeddings of each layer; gates that are cut; layers at the end that read
/// the K and V of others. Heads of Q, K and V are normalised, and scores are not scaled.
void configure_gemma3n(ModelConfig& config, MetadataReader& metadata) {
  configure_gemma_common(config, metadata);
  add_gemma_post_norms(config);
  window_but_every(config, metadata, 5);
  metadata.require("attention.shared_kv_layers");
  share_gemma_keys(config, metadata);
  config.per_layer_width = metadata.count("embedding_length_per_layer_input");
  read_streams(config, metadata);
  read_cuts(config, metadata);
  const std::int32_t rank = laurel_rank(metadata.file());
  const auto local = plain_frequencies(config.layer(0).attention.rope.n_rot, read_window_rope_base(metadata, 10000.0));
  for (LayerConfig& layer : config.blocks) {
    layer.graph.laurel_rank = rank;
    layer.graph.mixer_sum_scale = 1.0f / std::numbers::sqrt2_v<float>;
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.value_norm = true;
    layer.attention.scale = layer.attention.scale == 0.0f ? 1.0f : layer.attention.scale;
    if (layer.attention.window > 0) {
      layer.attention.rope.frequencies = local;
    }
  }
}

}  // namespace

Architecture gemma3n_architecture() { return {"gemma3n", configure_gemma3n}; }

}  // namespace rocmforge
