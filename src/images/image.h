#pragma once

#include <cstdint>
#include <vector>

namespace rocmforge {

/// 8-bit RGB, row by row from the top, without padding.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;
};

/// Bilinear has a support of one pixel, bicubic (a = -0.5) of two, Lanczos of three. All widen by the factor when an image
/// shrinks, so that every pixel counts.
enum class ResizeFilter { bilinear, bicubic, lanczos };

/// Equal to Image.resize() of Pillow (up to version 12, in whose order models were trained) to the bit: columns first, then
/// rows, each rounded to 8 bits; coefficients are integers with 22 binary places. Takes time and memory for the input and
/// the output, whatever the factor. Throws LogicError for sides below 1.
Image resize(const Image& image, int width, int height, ResizeFilter filter);

}  // namespace rocmforge
