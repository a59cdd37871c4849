#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/work_budget.h"
#include "images/decode.h"
#include "images/image.h"

namespace rocmforge {

// What the readers of the formats share. C libraries report errors by longjmp, which must not pass a C++ object with a
// destructor: functions that call setjmp hold plain data alone.

/// A file with what it may cost.
struct ImageFile {
  std::span<const std::uint8_t> bytes;
  const ImageLimits& limits;
  WorkBudget* budget;  ///< may be null
};

/// Rows of `width` pixels were computed. Throws what WorkBudget::spend() throws.
void spend_pixels(WorkBudget* budget, std::int64_t pixels);

/// An image of one colour, black. Throws Error where the sides are past the limits.
Image new_image(std::int64_t width, std::int64_t height, const ImageLimits& limits);

// Each throws Error: a broken file, or one past the limits.
Image decode_png(const ImageFile& file);
Image decode_jpeg(const ImageFile& file);
Image decode_webp(const ImageFile& file);
Image decode_gif(const ImageFile& file);

}  // namespace rocmforge
