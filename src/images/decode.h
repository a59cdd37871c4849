#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/work_budget.h"
#include "images/image.h"

namespace rocmforge {

enum class ImageFormat : std::uint8_t { png, jpeg, webp, gif };
std::string_view name(ImageFormat format);

/// By the file's first bytes; empty for other files.
std::optional<ImageFormat> format_of(std::span<const std::uint8_t> file);

/// The formats that this build reads: "PNG, JPEG, WebP, GIF". A library that was missing when it was built leaves its format
/// out.
std::string readable_formats();

/// What an image may cost. Sizes are those that its header claims, which are checked before memory is taken for pixels.
struct ImageLimits {
  std::size_t bytes = std::size_t{64} << 20;  ///< of the file
  int side = 32'768;
  std::int64_t pixels = std::int64_t{64} << 20;
  /// Beside the pixels, of a decoder: for JPEG and PNG.
  std::int64_t decoder_bytes = std::int64_t{512} << 20;
  /// A progressive JPEG paints all its pixels once a scan: scans times pixels.
  std::int64_t painted_pixels = std::int64_t{1} << 30;
};

/// What decoding uses is told as it goes.
struct DecodeCost {
  WorkBudget* budget = nullptr;                    ///< null: no limit
  std::function<void(std::int64_t bytes)> hold{};  ///< called before memory is allocated; may throw
};

/// An image as Pillow's open().convert("RGB") gives it: transparency is dropped, of 16-bit channels the upper half is taken,
/// of an animated GIF the first frame. Colour profiles and the orientation of cameras are not applied. Spends units of
/// the budget, and can be stopped by it. Throws Error with one line: another format, a broken file, or one past the limits.
Image decode_image(std::span<const std::uint8_t> file, const ImageLimits& limits = {}, const DecodeCost& cost = {});

}  // namespace rocmforge
