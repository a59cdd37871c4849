#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "images/decode.h"
#include "images/image.h"

namespace rocmforge {

// What the readers of the formats share. C libraries report errors by longjmp, which must not pass a C++ object with a
// destructor: functions that call setjmp hold plain data alone.

/// A file with what it may cost.
struct ImageFile {
  std::span<const std::uint8_t> bytes;
  const ImageLimits& limits;
  const DecodeCost& cost;
};

/// So many pixels were computed. Throws what WorkBudget::spend() throws.
void spend_pixels(const ImageFile& file, std::int64_t pixels);

/// A black image, counted with `decoder_bytes` for each pixel that its reader takes beside. Throws Error where the sides are
/// past the limits.
Image new_image(std::int64_t width, std::int64_t height, const ImageFile& file, int decoder_bytes = 0);

// Each throws Error: a broken file, or one past the limits.
Image decode_png(const ImageFile& file);
Image decode_jpeg(const ImageFile& file);
Image decode_webp(const ImageFile& file);
Image decode_gif(const ImageFile& file);

}  // namespace rocmforge
