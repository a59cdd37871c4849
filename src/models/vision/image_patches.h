#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "images/image.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// The sides that an image of `width` x `height` gets, in pixels: multiples of VisionConfig::unit(). Those that are kept are
/// rounded, halves to even, and where the area is then above or below the limits, both sides change by one factor, rounded
/// down or up (transformers, smart_resize). With a longest side both are reduced by one factor, then rounded up. Where an
/// image fills its limit, both change by one factor, rounded down. Throws Error for an image whose sides differ too much.
struct ImageSides {
  std::int32_t width = 0;
  std::int32_t height = 0;
};
ImageSides sides_for(const VisionConfig& config, std::int32_t width, std::int32_t height);

/// Where a patch is among an image's patches, or a square of them among its squares.
struct PatchPlace {
  std::int32_t row = 0;
  std::int32_t column = 0;
};

/// A window of an image's squares, cut off at its right and lower side.
struct SquareWindow {
  std::int32_t row = 0;
  std::int32_t column = 0;
  std::int32_t columns = 0;
  std::int32_t lines = 0;
};
/// The windows of `side` x `side` squares that an image of columns x lines squares has, line by line; 0: one, the image.
std::vector<SquareWindow> windows_of(std::int32_t columns, std::int32_t lines, std::int32_t side);

/// The squares of an image in the order that the encoder has them in: window by window, line by line.
std::vector<PatchPlace> squares_of(std::span<const SquareWindow> windows);

/// Where a patch is. Those of a square, which becomes one row, follow each other, line by line, squares as in `squares`.
inline PatchPlace patch_place(std::span<const PatchPlace> squares, std::int64_t patch, std::int32_t merge) {
  const PatchPlace square = squares[static_cast<std::size_t>(patch / (merge * merge))];
  const auto inside = static_cast<std::int32_t>(patch % (merge * merge));
  return {square.row * merge + inside / merge, square.column * merge + inside % merge};
}

/// The normalised pixels [patches, 3, patch_size, patch_size] of an image with such sides, in the order of patch_place().
std::vector<float> patches_of(const VisionConfig& config, const Image& image, std::span<const PatchPlace> squares);

}  // namespace rocmforge
