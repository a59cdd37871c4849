#include "models/vision/vision_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::int32_t most_features = 1 << 20;
constexpr std::int64_t most_positions = 1 << 16;
constexpr std::int32_t most_tiles = 64;  ///< of an image

void require_activation(MetadataReader& metadata, std::string_view key, std::string_view name) {
  if (!metadata.flag(key, false)) {
    throw metadata.error(key, fmt::format("is not true, the layers of this projector have {}", name));
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

/// Pairs of a head's elements turn by the patch's row or column: pair p by `axes`[p], with `frequencies`[p].
struct Turns {
  std::vector<float> frequencies;
  std::vector<std::int32_t> axes;
};

/// The first half of the pairs turns by the row, the second by the column. `frequency` is of (pair of its half, axis).
template <class Frequency>
Turns by_halves(std::int32_t pairs, const Frequency& frequency) {
  Turns turns;
  for (std::int32_t pair = 0; pair < pairs; ++pair) {
    const std::int32_t axis = 2 * pair / pairs;
    turns.frequencies.push_back(frequency(pair - axis * pairs / 2, axis));
    turns.axes.push_back(axis);
  }
  return turns;
}

void set_rotation(VisionConfig& config, RopeKind kind, Turns turns) {
  auto frequencies = std::make_shared<RopeFrequencies>();
  frequencies->inverse_frequency = std::move(turns.frequencies);
  const auto axes = std::make_shared<const std::vector<std::int32_t>>(std::move(turns.axes));
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.attention.rope = {.kind = kind, .n_rot = layer.attention.head_dim, .frequencies = frequencies, .axes = axes};
  }
  config.encoder.position_axes = 2;
}

/// Elements of a head, whose pairs must be even in number.
std::int32_t rotated_elements(const VisionConfig& config, MetadataReader& metadata) {
  const std::int32_t head_dim = config.encoder.layer(0).attention.head_dim;
  if (head_dim % 4 != 0) {
    throw metadata.error("vision.attention.head_count",
                         fmt::format("leaves heads of {} elements, a multiple of 4 is needed", head_dim));
  }
  return head_dim;
}

/// Both halves of the pairs have the same frequencies.
void rotate_alike(VisionConfig& config, MetadataReader& metadata) {
  const std::int32_t head_dim = rotated_elements(config, metadata);
  const std::vector<float> all = rope_frequencies(head_dim / 2, 10000.0, {}, {}).inverse_frequency;
  const auto frequency = [&](std::int32_t pair, std::int32_t) { return all[static_cast<std::size_t>(pair)]; };
  set_rotation(config, RopeKind::half, by_halves(head_dim / 2, frequency));
}

/// Rows have the first of each two frequencies, columns the second. The converter makes the elements of a pair neighbours.
void rotate_in_turns(VisionConfig& config, MetadataReader& metadata) {
  const std::int32_t head_dim = rotated_elements(config, metadata);
  const double base = metadata.number("rope.freq_base", 10000.0);
  const std::vector<float> all = rope_frequencies(head_dim, base, {}, {}).inverse_frequency;
  const auto frequency = [&](std::int32_t pair, std::int32_t axis) {
    return all[static_cast<std::size_t>(2 * pair + axis)];
  };
  set_rotation(config, RopeKind::adjacent, by_halves(head_dim / 2, frequency));
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

/// What the encoders of Qwen have in common.
void configure_qwen(VisionConfig& config, MetadataReader& metadata) {
  configure_usual(config);
  rotate_alike(config, metadata);
  config.projector = Projector::joined;
  config.frames = 2;
  config.merge = metadata.count("vision.spatial_merge_size", 2);
  config.min_tokens = 8;
  config.max_tokens = 4096;
  config.marks = {.placeholder = "<|image_pad|>",
                  .token = "<|image_pad|>",
                  .before = "<|vision_start|>",
                  .after = "<|vision_end|>",
                  .printed = true};
}

/// Features of a layer by its tensors: the converter of Qwen2-VL writes another number. Up and down may have each other's
/// names.
std::int32_t features_of_tensors(const VisionConfig& config, MetadataReader& metadata) {
  const GgufTensor* up = metadata.file().find_tensor("v.blk.0.ffn_up.weight");
  if (up == nullptr || up->tensor.shape.rank() != 2) {
    return config.encoder.layer(0).feed_forward.width;
  }
  const std::int64_t rows = up->tensor.shape.rows();
  const std::int64_t features = rows == config.encoder.hidden ? up->tensor.shape.cols() : rows;
  if (features > most_features) {
    throw metadata.error("vision.feed_forward_length", fmt::format("is {} by the tensors", features));
  }
  return static_cast<std::int32_t>(features);
}

/// The outputs of a linear layer.
std::int32_t rows_of_tensor(MetadataReader& metadata, std::string_view name) {
  const GgufTensor* tensor = metadata.file().find_tensor(name);
  if (tensor == nullptr || tensor->tensor.shape.rank() != 2 || tensor->tensor.shape.rows() > most_features) {
    throw Error(fmt::format("{}: tensor '{}' is no linear layer", metadata.file().path().string(), name));
  }
  return static_cast<std::int32_t>(tensor->tensor.shape.rows());
}

/// Qwen2-VL.
void configure_qwen2vl(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  const std::int32_t features = features_of_tensors(config, metadata);
  configure_qwen(config, metadata);
  const bool gelu = metadata.flag("use_gelu", false);
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.feed_forward.width = features;
    layer.feed_forward.activation = gelu ? Activation::gelu_tanh : Activation::gelu_quick;
  }
  config.learned_positions = false;
}

/// Qwen2.5-VL: RMSNorms, gated layers, windows.
void configure_qwen25vl(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  require_activation(metadata, "use_silu", "SiLU");
  configure_qwen(config, metadata);
  config.encoder.norm_kind = NormKind::rms;
  config.encoder.norm_needs_bias = false;
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.feed_forward = {.width = layer.feed_forward.width, .needs_bias = true};
  }
  config.learned_positions = false;
  constexpr std::int32_t window_pixels = 112;  // which files don't have
  config.window = std::max(window_pixels / config.patch_size / config.merge, 1);
  config.window_pattern = metadata.count("vision.n_wa_pattern");
}

/// Qwen3-VL, Qwen3.5 and later.
void configure_qwen3vl(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  require_activation(metadata, "use_gelu", "GELU");
  configure_qwen(config, metadata);
  config.deepstack = deepstack_layers(metadata.file(), config.encoder.layers);
}

/// Gemma 3: SigLIP.
void configure_gemma3(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  require_activation(metadata, "use_gelu", "GELU");
  configure_usual(config);
  config.projector = Projector::mean;
  config.merge = metadata.count("vision.projector.scale_factor", 4);
  config.fixed_size = true;
  config.filter = ResizeFilter::bilinear;
  config.both_directions = true;
  config.marks = {.placeholder = "<start_of_image>",
                  .token = "<image_soft_token>",
                  .before = "\n\n<start_of_image>",
                  .after = "<end_of_image>\n\n"};
}

/// Sizes, positions and marks of images for Gemma 4.
void take_as_gemma4(VisionConfig& config, MetadataReader& metadata, const ModelConfig& text) {
  config.fills = true;
  config.min_tokens = 1;
  config.max_tokens = 280;  // as transformers has it
  if (const GgufTensor* table = metadata.file().find_tensor("v.position_embd.weight");
      table != nullptr && table->tensor.shape.rank() == 3) {
    config.axis_positions = static_cast<std::int32_t>(std::min(table->tensor.shape[1], most_positions));
  }
  if (config.axis_positions < config.merge) {
    throw Error(fmt::format("{}: tensor 'v.position_embd.weight' has no positions for columns and rows",
                            metadata.file().path().string()));
  }
  config.max_tokens = std::min(config.max_tokens, config.axis_positions / config.merge);
  config.both_directions = text.per_layer_width == 0;  // Gemma 4 E has embeddings of its layers
  // Where a layer looks up an embedding of its own, a token of an image counts as padding.
  config.marks = {.placeholder = "<|image|>", .token = "<pad>", .before = "<|image>", .after = "<image|>"};
}

/// Gemma 4: RMSNorms before and behind each part, heads normalised, gated layers without biases. Each half of a head turns
/// by itself: the first by the column, the second by the row.
void configure_gemma4(VisionConfig& config, MetadataReader& metadata, const ModelConfig& text) {
  const std::int32_t half = rotated_elements(config, metadata) / 2;
  config.encoder.norm_kind = NormKind::rms;
  set_norms(config, "ln1", "ln2");
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.graph.mixer_post_norm = "attn_post_norm";
    layer.graph.ffn_post_norm = "ffn_post_norm";
    layer.attention.scale = 1.0f;
    layer.attention.qk_norm = QkNorm::heads;
    layer.attention.value_norm = true;
    layer.attention.halves_turn = true;
    layer.feed_forward.activation = Activation::gelu_tanh;
  }
  const std::vector<float> all = rope_frequencies(half, 100.0, {}, {}).inverse_frequency;
  Turns turns = by_halves(half, [&](std::int32_t pair, std::int32_t) { return all[static_cast<std::size_t>(pair)]; });
  std::ranges::for_each(turns.axes, [](std::int32_t& axis) { axis = 1 - axis; });
  set_rotation(config, RopeKind::half, std::move(turns));
  config.projector = Projector::scaled_mean;
  config.merge = metadata.count("vision.projector.scale_factor", 3);
  for (std::size_t channel = 0; channel < 3; ++channel) {  // the model maps 0 to 1 to -1 to 1
    config.deviation[channel] *= 0.5f;
    config.mean[channel] += config.deviation[channel];
  }
  take_as_gemma4(config, metadata, text);
}

/// Gemma 4 12B: no layers. A square is one patch.
void configure_gemma4_unified(VisionConfig& config, MetadataReader& metadata, const ModelConfig& text) {
  config.patch_size *= std::min(metadata.count("vision.projector.scale_factor", 3), 16);
  config.projector = Projector::normed;
  config.patch_norms = true;
  config.input_norm = "v.patch_norm.3";
  take_as_gemma4(config, metadata, text);
}

/// Pixtral, Mistral Small 3.1 and later, Ministral 3: RMSNorms, gated layers without biases.
void configure_pixtral(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  const bool gelu = metadata.flag("use_gelu", false);
  if (gelu == metadata.flag("use_silu", false)) {
    throw metadata.error("use_silu", "and 'clip.use_gelu' must say which of both the layers have");
  }
  config.encoder.norm_kind = NormKind::rms;
  set_norms(config, "ln1", "ln2");
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.feed_forward.activation = gelu ? Activation::gelu : Activation::silu;
  }
  rotate_in_turns(config, metadata);
  config.projector = Projector::pixtral;
  config.merge = metadata.count("vision.spatial_merge_size", 1);
  config.longest_side = config.image_size;
  config.learned_positions = false;
  config.input_norm = "v.pre_ln";
  config.line_ends = true;
  config.marks = {.placeholder = "[IMG]", .token = "[IMG]", .before = "", .after = "[IMG_END]"};
}

/// InternVL 2.5 and later: factors of what a layer adds, a learned state before all patches, tiles. The large encoder has
/// RMSNorms, which its file shows by their lack of a bias, and norms of Q and K.
void configure_internvl(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  require_activation(metadata, "use_gelu", "GELU");
  configure_usual(config);
  const GgufFile& file = metadata.file();
  if (file.find_tensor("v.blk.0.ln1.bias") == nullptr) {
    config.encoder.norm_kind = NormKind::rms;
    config.encoder.norm_needs_bias = false;
  }
  const bool qk_norms = file.find_tensor("v.blk.0.attn_q_norm.weight") != nullptr;
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.graph.mixer_factors = "ls1";
    layer.graph.ffn_factors = "ls2";
    layer.attention.needs_bias = false;  // the large encoder has none
    layer.attention.qk_norm = qk_norms ? QkNorm::vectors : QkNorm::none;
    layer.feed_forward.activation = Activation::gelu;
  }
  config.projector = Projector::joined_norm;
  config.class_position = 0;
  config.merge = metadata.count("vision.projector.scale_factor", 2);
  config.fixed_size = true;
  config.tile_grid = TileGrid::nearest_ratio;
  config.most_tiles = std::min(metadata.count("vision.preproc_max_tiles", 12), most_tiles);
  config.least_tiles = std::min(metadata.count("vision.preproc_min_tiles", 1), config.most_tiles);
  config.marks = {.placeholder = "<IMG_CONTEXT>", .token = "<IMG_CONTEXT>", .before = "<img>", .after = "</img>"};
}

/// Idefics 3, SmolVLM: SigLIP, tiles with texts between them.
void configure_idefics3(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  require_activation(metadata, "use_gelu", "GELU");
  configure_usual(config);
  config.projector = Projector::joined_once;
  config.merge = metadata.count("vision.projector.scale_factor", 2);
  config.fixed_size = true;
  config.filter = ResizeFilter::lanczos;
  config.tile_grid = TileGrid::multiples;
  constexpr std::int32_t longest_side = 4096;  // as transformers limits it
  config.longest_side = std::min(metadata.count("vision.preproc_image_size", config.image_size), longest_side);
  config.marks = {.placeholder = "<image>", .token = "<image>", .before = "", .after = "<fake_token_around_image>"};
}

/// GLM-4.1V: RMSNorms, gated layers without biases, of a width that the file's key does not have.
void configure_glm4v(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  require_activation(metadata, "use_silu", "SiLU");
  config.merger_width = config.encoder.layer(0).feed_forward.width;
  const std::int32_t features = features_of_tensors(config, metadata);
  configure_qwen(config, metadata);
  config.encoder.norm_kind = NormKind::rms;
  config.encoder.norm_needs_bias = false;
  for (LayerConfig& layer : config.encoder.blocks) {
    layer.attention.needs_bias = false;
    layer.attention.output_needs_bias = false;
    layer.feed_forward = {.width = features};
  }
  config.projector = Projector::downsampled;
  config.product_norm = "v.norm_embd";
  config.position_scale = PositionScale::centres;
  config.max_tokens = 6144;
  config.marks = {.placeholder = "<|image|>",
                  .token = "<|image|>",
                  .before = "<|begin_of_image|>",
                  .after = "<|end_of_image|>",
                  .printed = true};
}

/// LFM2-VL: SigLIP 2 with images in their own proportions, tiles of large ones.
void configure_lfm2(VisionConfig& config, MetadataReader& metadata, const ModelConfig&) {
  require_activation(metadata, "use_gelu", "GELU");
  configure_usual(config);
  config.projector = Projector::normed_joined;
  config.merger_width = rows_of_tensor(metadata, "mm.1.weight");
  config.merge = metadata.count("vision.projector.scale_factor", 2);
  if (config.merge > 16) {
    throw metadata.error("vision.projector.scale_factor", fmt::format("is {}", config.merge));
  }
  config.position_scale = PositionScale::means;
  config.filter = ResizeFilter::bilinear;
  config.min_tokens = 64;  // these numbers are transformers'; files have none of them so far
  config.max_tokens = 256;
  config.keeps_a_square = true;
  config.tile_grid = TileGrid::of_large;
  config.tile_side = metadata.count("vision.preproc_tile_size", 512);
  if (config.tile_side % config.unit() != 0 || config.tile_side > config.unit() * 64) {
    throw metadata.error("vision.preproc_tile_size", fmt::format("is {}, no multiple of {} up to {}", config.tile_side,
                                                                 config.unit(), config.unit() * 64));
  }
  config.most_tiles = std::min(metadata.count("vision.preproc_max_tiles", 10), most_tiles);
  config.least_tiles = std::min(metadata.count("vision.preproc_min_tiles", 2), config.most_tiles);
  config.marks = {.placeholder = "<image>", .token = "<image>", .before = "<|image_start|>", .after = "<|image_end|>"};
}

constexpr VisionFamily families[] = {{"qwen3vl_merger", configure_qwen3vl},
                                     {"gemma4v", configure_gemma4},
                                     {"gemma4uv", configure_gemma4_unified, false},
                                     {"gemma3", configure_gemma3},
                                     {"pixtral", configure_pixtral},
                                     {"qwen2.5vl_merger", configure_qwen25vl},
                                     {"qwen2.5o", configure_qwen25vl},  // of Qwen2.5-Omni, beside an audio encoder
                                     {"qwen2vl_merger", configure_qwen2vl},
                                     {"internvl", configure_internvl},
                                     {"idefics3", configure_idefics3},
                                     {"glm4v", configure_glm4v},
                                     {"lfm2", configure_lfm2}};

std::string supported_projectors() {
  std::string names;
  for (const VisionFamily& family : families) {
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  return names;
}

}  // namespace

const VisionFamily& vision_family(const GgufFile& file) {
  const std::string_view key =
      file.contains("clip.vision.projector_type") ? "clip.vision.projector_type" : "clip.projector_type";
  const std::string name = file.string(key);
  const auto* found = std::ranges::find(families, std::string_view(name), &VisionFamily::name);
  if (found == std::end(families)) {
    throw Error(fmt::format("{}: the projector {} is not supported, those supported are {}", file.path().string(),
                            quote(name), supported_projectors()));
  }
  return *found;
}

}  // namespace rocmforge
