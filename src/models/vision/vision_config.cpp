#include "models/vision/vision_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "models/config/clip_file.h"
#include "models/config/metadata_reader.h"
#include "models/vision/vision_family.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

constexpr std::int32_t most_tokens = 16384;  ///< of an image, whatever a file says

std::array<float, 3> channels(const GgufFile& file, std::string_view key, bool positive) {
  const auto values = file.numbers(key);
  if (!values || values->size() != 3 ||
      std::ranges::any_of(*values, [&](double value) { return !std::isfinite(value) || (positive && value <= 0.0); })) {
    throw Error(fmt::format("{}: key '{}' must have three {}numbers, one for each channel", file.path().string(), key,
                            positive ? "positive " : ""));
  }
  return {static_cast<float>((*values)[0]), static_cast<float>((*values)[1]), static_cast<float>((*values)[2])};
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

/// Of the whole units in the longest side, as many as the wanted rows allow for a square.
void limit_longest_side(VisionConfig& config, std::int32_t wanted) {
  const std::int32_t limit = wanted > 0 ? std::min(wanted, most_tokens) : most_tokens;
  std::int32_t side = std::max((config.longest_side + config.unit() - 1) / config.unit(), 1);
  while (side > 1 && config.rows_of(side, side) > limit) {
    --side;
  }
  config.longest_side = std::min(config.longest_side, side * config.unit());
  config.min_tokens = 1;
  config.max_tokens = config.rows_of(side, side);
}

/// With a wanted number of rows, so few tiles that these and the whole image fit into it.
void limit_tiles(VisionConfig& config, std::int32_t wanted) {
  const std::int32_t limit = (wanted > 0 ? std::min(wanted, most_tokens) : most_tokens) / config.max_tokens - 1;
  if (config.tile_grid == TileGrid::multiples) {
    std::int32_t side = (config.longest_side + config.image_size - 1) / config.image_size;
    while (side > 1 && side * side > limit) {
      --side;
    }
    config.longest_side = std::min(config.longest_side, side * config.image_size);
    return;
  }
  config.most_tiles = std::clamp(limit, 1, config.most_tiles);
  config.least_tiles = std::min(config.least_tiles, config.most_tiles);
}

/// An image is cut where at least least_tiles and the whole image fit into the wanted rows, and a tile into a step.
void limit_tiles_of_large(VisionConfig& config, std::int32_t wanted) {
  const std::int32_t side = config.side_of_tile() / config.unit();
  const std::int32_t limit =
      ((wanted > 0 ? std::min(wanted, most_tokens) : most_tokens) - config.max_tokens) / (side * side);
  config.most_tiles = std::min(config.most_tiles, limit);
  if (config.most_tiles < config.least_tiles || side * side > config.max_tokens) {
    config.tile_grid = TileGrid::none;
  }
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
    limit_tiles(config, wanted);
    return;
  }
  if (config.longest_side > 0) {
    limit_longest_side(config, wanted);
    return;
  }
  const std::int64_t pixels = std::int64_t{config.unit()} * config.unit();
  const auto limit = [&](std::string_view key, std::int32_t& tokens) {
    if (metadata.contains(key)) {
      tokens = static_cast<std::int32_t>(std::clamp<std::int64_t>(metadata.count(key) / pixels, 1, most_tokens));
    }
  };
  limit("vision.image_min_pixels", config.min_tokens);
  limit("vision.image_max_pixels", config.max_tokens);
  if (wanted > 0) {
    config.max_tokens = std::min(config.max_tokens, wanted);
  }
  config.min_tokens = std::min(config.min_tokens, config.max_tokens);
  if (config.tile_grid == TileGrid::of_large) {
    limit_tiles_of_large(config, wanted);
  }
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
  const VisionFamily& family = vision_family(file);
  MetadataReader metadata(file, "clip");
  VisionConfig config;
  read_encoder_layers(config.encoder, metadata, "vision", family.has_layers);
  read_sizes(config, metadata);
  config.text_width = text.hidden;
  family.configure(config, metadata, text);
  limit_tokens(config, metadata, max_tokens);
  check_text(config, text, metadata);
  if (!family.has_layers) {
    return config;
  }
  const GgufTensor* down = file.find_tensor("v.blk.0.ffn_down.weight");
  const std::int32_t width = config.encoder.layer(0).feed_forward.width;
  config.swapped_layers =
      down != nullptr && width != config.encoder.hidden && down->tensor.shape.cols() == config.encoder.hidden;
  return config;
}

}  // namespace rocmforge
