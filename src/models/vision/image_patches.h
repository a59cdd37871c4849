#pragma once

#include <cstdint>
#include <vector>

#include "images/image.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// The sides that an image of `width` x `height` gets, in pixels: multiples of VisionConfig::unit(). Those that are kept are
/// rounded, halves to even, and where the area is then above or below the limits, both sides change by one factor, rounded
/// down or up (transformers, smart_resize). Throws Error for an image whose sides differ too much.
struct ImageSides {
  std::int32_t width = 0;
  std::int32_t height = 0;
};
ImageSides sides_for(const VisionConfig& config, std::int32_t width, std::int32_t height);

/// Where a patch is, in patches. Those that become one row follow each other, row by row and column by column; so do the
/// squares.
struct PatchPlace {
  std::int32_t row = 0;
  std::int32_t column = 0;
};
PatchPlace patch_place(std::int64_t patch, std::int32_t columns, std::int32_t merge);

/// The normalised pixels [patches, 3, patch_size, patch_size] of an image with such sides, in the order of patch_place().
std::vector<float> patches_of(const VisionConfig& config, const Image& image);

}  // namespace rocmforge
