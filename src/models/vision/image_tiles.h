#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "images/image.h"
#include "models/vision/image_patches.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// What the encoder sees by itself: an image in a size that it takes, or a part of one.
struct ImageTile {
  Image image;
  std::string before{};  ///< text with control tokens before its rows
};

/// An image as the encoder sees it.
struct TiledImage {
  std::vector<ImageTile> tiles;  ///< at least one, in the order in which their rows follow each other
  std::string after{};           ///< text behind the last one's rows
};

/// Resizes an image, and cuts it where the encoder sees tiles (VisionConfig::tile_grid). Throws Error for an image that it
/// can't take.
TiledImage tiles_of(const VisionConfig& config, const Image& image);

/// Columns and lines of tiles.
struct TileCounts {
  std::int32_t columns = 1;
  std::int32_t lines = 1;
};
/// The grid of least_tiles to most_tiles tiles whose proportions are nearest to the image's. Of equal ones the largest of
/// which the image would fill more than half (transformers, the image processors of GOT-OCR2, which InternVL has, and of
/// LFM2-VL).
TileCounts grid_of_nearest_ratio(const VisionConfig& config, std::int32_t width, std::int32_t height);

/// How an image becomes whole tiles: it is resized so that its longer side is longest_side, then to the grid, whose sides
/// are rounded up (transformers, the image processor of Idefics 3).
struct MultipleSides {
  ImageSides first;
  TileCounts grid;
};
MultipleSides sides_of_multiples(const VisionConfig& config, std::int32_t width, std::int32_t height);

}  // namespace rocmforge
