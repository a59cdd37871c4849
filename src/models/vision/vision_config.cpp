#include "models/vision/vision_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <variant>

#include "base/log.h"
#include "models/config/metadata_reader.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

/// What a family of encoders fixes.
struct Family {
  std::string_view name;  ///< as clip.projector_type has it
  void (*configure)(VisionConfig& config, MetadataReader& metadata);
};

void require_gelu(MetadataReader& metadata) {
  constexpr std::string_view key = "use_gelu";
  if (!metadata.flag(key, false)) {
    throw metadata.error(key, "is not true, the layers of this projector have GELU");
  }
}

void set_norms(VisionConfig& config, std::string_view mixer, std::string_view ffn) {
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.graph.mixer_norm = mixer;
    layer.graph.ffn_norm = ffn;
  }
}

/// LayerNorms, biases everywhere, GELU: as most encoders have them.
void configure_usual(VisionConfig& config) {
  config.encoder.norm_kind = NormKind::layer;
  config.encoder.norm_needs_bias = true;
  set_norms(config, "ln1", "ln2");
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.attention.needs_bias = true;
    layer.attention.output_needs_bias = true;
    layer.feed_forward = {
        .width = layer.feed_forward.width, .activation = Activation::gelu_tanh, .gated = false, .needs_bias = true};
  }
}

/// The first half of a head's pairs turns by the patch's row, the second by its column, with the same frequencies.
void rotate_by_rows_and_columns(VisionConfig& config, MetadataReader& metadata) {
  const std::int32_t head_dim = config.encoder.layer(0).attention.head_dim;
  if (head_dim % 4 != 0) {
    throw metadata.error("vision.attention.head_count",
                         fmt::format("leaves heads of {} elements, a multiple of 4 is needed", head_dim));
  }
  const auto pairs = static_cast<std::size_t>(head_dim / 4);
  auto frequencies = std::make_shared<RopeFrequencies>(rope_frequencies(head_dim / 2, 10000.0, {}, {}));
  auto& angles = frequencies->inverse_frequency;
  angles.resize(2 * pairs);
  std::copy_n(angles.begin(), pairs, angles.begin() + static_cast<std::ptrdiff_t>(pairs));
  auto axes = std::make_shared<std::vector<std::int32_t>>(2 * pairs, 0);
  std::fill(axes->begin() + static_cast<std::ptrdiff_t>(pairs), axes->end(), 1);
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.attention.rope = {.kind = RopeKind::half, .n_rot = head_dim, .frequencies = frequencies, .axes = axes};
  }
  config.encoder.position_axes = 2;
}

std::vector<std::int32_t> deepstack_layers(const GgufFile& file, std::int32_t layers) {
  constexpr std::string_view key = "clip.vision.is_deepstack_layers";
  const GgufValue* value = file.find(key);
  if (value == nullptr) {
    return {};
  }
  const auto* array = std::get_if<GgufArray>(value);
  const auto* flags = array != nullptr ? std::get_if<std::vector<bool>>(&array->elements) : nullptr;
  if (flags == nullptr || std::ssize(*flags) > layers) {
    throw Error(fmt::format("{}: key '{}' is no array of a boolean for each layer", file.path().string(), key));
  }
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < flags->size(); ++i) {
    if ((*flags)[i]) {
      found.push_back(static_cast<std::int32_t>(i));
    }
  }
  return found;
}

/// Qwen3-VL, Qwen3.5 and later.
void configure_qwen3vl(VisionConfig& config, MetadataReader& metadata) {
  require_gelu(metadata);
  configure_usual(config);
  rotate_by_rows_and_columns(config, metadata);
  config.projector = Projector::qwen3vl;
  config.frames = 2;
  config.merge = metadata.count("vision.spatial_merge_size", 2);
  config.min_tokens = 8;
  config.max_tokens = 4096;
  config.deepstack = deepstack_layers(metadata.file(), config.encoder.layers);
  config.marks = {.placeholder = "<|image_pad|>",
                  .token = "<|image_pad|>",
                  .before = "<|vision_start|>",
                  .after = "<|vision_end|>",
                  .printed = true};
}

/// Gemma 3: SigLIP.
void configure_gemma3(VisionConfig& config, MetadataReader& metadata) {
  require_gelu(metadata);
  configure_usual(config);
  config.projector = Projector::gemma3;
  config.merge = metadata.count("vision.projector.scale_factor", 4);
  config.fixed_size = true;
  config.filter = ResizeFilter::bilinear;
  config.both_directions = true;
  config.marks = {.placeholder = "<start_of_image>",
                  .token = "<image_soft_token>",
                  .before = "\n\n<start_of_image>",
                  .after = "<end_of_image>\n\n"};
}

constexpr Family families[] = {{"qwen3vl_merger", configure_qwen3vl}, {"gemma3", configure_gemma3}};

const Family& find_family(const GgufFile& file) {
  const std::string_view key =
      file.contains("clip.vision.projector_type") ? "clip.vision.projector_type" : "clip.projector_type";
  const std::string name = file.string(key);
  const auto* found = std::ranges::find(families, std::string_view(name), &Family::name);
  if (found == std::end(families)) {
    throw Error(fmt::format("{}: the projector {} is not supported, those supported are {}", file.path().string(),
                            quote(name), supported_projectors()));
  }
  return *found;
}

std::array<float, 3> channels(const GgufFile& file, std::string_view key, bool positive) {
  const auto values = file.numbers(key);
  if (!values || values->size() != 3 ||
      std::ranges::any_of(*values, [&](double value) { return !std::isfinite(value) || (positive && value <= 0.0); })) {
    throw Error(fmt::format("{}: key '{}' must have three {}numbers, one for each channel", file.path().string(), key,
                            positive ? "positive " : ""));
  }
  return {static_cast<float>((*values)[0]), static_cast<float>((*values)[1]), static_cast<float>((*values)[2])};
}

void read_layers(VisionConfig& config, MetadataReader& metadata) {
  ModelConfig& encoder = config.encoder;
  encoder.architecture = "clip";
  encoder.layers = metadata.count("vision.block_count");
  // Every layer has tensors. The bound keeps a damaged file from causing allocations of gigabytes.
  if (const std::size_t tensors = metadata.file().tensors().size(); static_cast<std::size_t>(encoder.layers) > tensors) {
    throw metadata.error("vision.block_count", fmt::format("is {}, but the file has {} tensors", encoder.layers, tensors));
  }
  encoder.hidden = metadata.count("vision.embedding_length");
  encoder.norm_eps = static_cast<float>(metadata.number("vision.attention.layer_norm_epsilon"));
  encoder.encoder = {.is_encoder = true, .one_plane = true};
  const std::int32_t heads = metadata.count("vision.attention.head_count");
  if (encoder.hidden % heads != 0) {
    throw metadata.error("vision.attention.head_count",
                         fmt::format("is {}, which does not divide embedding_length {}", heads, encoder.hidden));
  }
  LayerConfig layer;
  layer.attention.q_heads = heads;
  layer.attention.kv_heads = heads;
  layer.attention.head_dim = encoder.hidden / heads;
  layer.attention.rope.kind = RopeKind::none;
  layer.feed_forward.width = metadata.count("vision.feed_forward_length");
  encoder.blocks.assign(static_cast<std::size_t>(encoder.layers), layer);
}

void read_sizes(VisionConfig& config, MetadataReader& metadata) {
  config.patch_size = metadata.count("vision.patch_size");
  config.image_size = metadata.count("vision.image_size");
  constexpr std::int32_t longest = 16384;  // keeps products of sizes small
  if (config.patch_size > 256 || config.image_size > longest || config.image_size % config.patch_size != 0) {
    throw metadata.error("vision.image_size",
                         fmt::format("is {}, patches of {} pixels do not fill it", config.image_size, config.patch_size));
  }
  config.mean = channels(metadata.file(), "clip.vision.image_mean", false);
  config.deviation = channels(metadata.file(), "clip.vision.image_std", true);
}

/// Limits in rows, from the family's, the file's in pixels and the wanted one.
void limit_tokens(VisionConfig& config, MetadataReader& metadata, std::int32_t wanted) {
  if (config.merge > 64) {
    throw metadata.error("vision.spatial_merge_size", fmt::format("is {}", config.merge));
  }
  if (config.fixed_size) {
    if (config.position_side() % config.merge != 0) {
      throw metadata.error("vision.image_size", fmt::format("is {}: {} patches a side can't be merged by {}",
                                                            config.image_size, config.position_side(), config.merge));
    }
    const std::int32_t side = config.position_side() / config.merge;
    config.min_tokens = config.max_tokens = side * side;
    return;
  }
  const std::int64_t pixels = std::int64_t{config.unit()} * config.unit();
  const auto limit = [&](std::string_view key, std::int32_t& tokens) {
    if (metadata.contains(key)) {
      constexpr std::int64_t most = 16384;
      tokens = static_cast<std::int32_t>(std::clamp<std::int64_t>(metadata.count(key) / pixels, 1, most));
    }
  };
  limit("vision.image_min_pixels", config.min_tokens);
  limit("vision.image_max_pixels", config.max_tokens);
  if (wanted > 0) {
    config.max_tokens = std::min(config.max_tokens, wanted);
  }
  config.min_tokens = std::min(config.min_tokens, config.max_tokens);
}

void check_text(const VisionConfig& config, const ModelConfig& text, MetadataReader& metadata) {
  const std::int32_t width = metadata.count("vision.projection_dim");
  if (width != text.hidden && width != config.row_width()) {
    throw metadata.error(
        "vision.projection_dim",
        fmt::format("is {}, the model has rows of {}: this encoder is another model's", width, text.hidden));
  }
  if (std::ssize(config.deepstack) != text.deepstack_layers) {
    throw metadata.error("vision.is_deepstack_layers",
                         fmt::format("names {} layers, the model takes the states of {}: this encoder is another model's",
                                     config.deepstack.size(), text.deepstack_layers));
  }
}

}  // namespace

VisionConfig VisionConfig::from_gguf(const GgufFile& file, const ModelConfig& text, std::int32_t max_tokens) {
  if (const std::string architecture = file.string("general.architecture"); architecture != "clip") {
    throw Error(fmt::format("{}: this is no image encoder (mmproj) but a model of architecture {}", file.path().string(),
                            quote(architecture)));
  }
  if (!file.boolean("clip.has_vision_encoder", true)) {
    throw Error(fmt::format("{}: has no image encoder", file.path().string()));
  }
  const Family& family = find_family(file);
  MetadataReader metadata(file, "clip");
  VisionConfig config;
  read_layers(config, metadata);
  read_sizes(config, metadata);
  config.text_width = text.hidden;
  family.configure(config, metadata);
  limit_tokens(config, metadata, max_tokens);
  check_text(config, text, metadata);
  const GgufTensor* down = file.find_tensor("v.blk.0.ffn_down.weight");
  const std::int32_t width = config.encoder.layer(0).feed_forward.width;
  config.swapped_layers =
      down != nullptr && width != config.encoder.hidden && down->tensor.shape.cols() == config.encoder.hidden;
  return config;
}

std::string supported_projectors() {
  std::string names;
  for (const Family& family : families) {
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  return names;
}

}  // namespace rocmforge
