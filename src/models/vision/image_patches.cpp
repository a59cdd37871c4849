#include "models/vision/image_patches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::int32_t longest_ratio = 200;

std::int32_t multiple(double units, std::int32_t unit) { return static_cast<std::int32_t>(units) * unit; }

ImageSides within_limits(const VisionConfig& config, double width, double height) {
  const std::int32_t unit = config.unit();
  const double square = static_cast<double>(unit) * unit;
  const double least_units = config.keeps_a_square ? 1.0 : 0.0;
  const auto nearest = [&](double side) { return multiple(std::max(std::nearbyint(side / unit), least_units), unit); };
  const ImageSides sides{nearest(width), nearest(height)};
  const double area = static_cast<double>(sides.width) * sides.height;
  if (const double most = config.max_tokens * square; area > most) {
    const double shrink = std::sqrt(width * height / most);
    const auto smaller = [&](double side) { return multiple(std::max(std::floor(side / shrink / unit), 1.0), unit); };
    return {smaller(width), smaller(height)};
  }
  if (const double least = config.min_tokens * square; area < least) {
    const double grow = std::sqrt(least / (width * height));
    const auto larger = [&](double side) { return multiple(std::ceil(side * grow / unit), unit); };
    return {larger(width), larger(height)};
  }
  return sides;
}

/// Reduced to the longest side, rounded down, then up to units (transformers, the image processor of Pixtral).
ImageSides below_longest(const VisionConfig& config, std::int32_t width, std::int32_t height) {
  const double ratio = std::max(static_cast<double>(std::max(width, height)) / config.longest_side, 1.0);
  const auto side = [&](std::int32_t of) {
    const auto reduced = std::max(static_cast<std::int32_t>(std::floor(of / ratio)), 1);
    return (reduced + config.unit() - 1) / config.unit() * config.unit();
  };
  return {side(width), side(height)};
}

/// As large as max_tokens allow, each side rounded down (transformers, the image processor of Gemma 4).
ImageSides filled(const VisionConfig& config, std::int32_t width, std::int32_t height) {
  const std::int32_t unit = config.unit();
  const double area = static_cast<double>(config.max_tokens) * unit * unit;
  const double factor = std::sqrt(area / (static_cast<double>(width) * height));
  const auto units = [&](std::int32_t side) { return static_cast<std::int32_t>(std::floor(factor * side / unit)); };
  ImageSides sides{units(width), units(height)};
  if (sides.height == 0) {  // a line
    sides = {std::min(std::max(width / height, 1), config.max_tokens), 1};
  } else if (sides.width == 0) {
    sides = {1, std::min(std::max(height / width, 1), config.max_tokens)};
  }
  return {sides.width * unit, sides.height * unit};
}

}  // namespace

ImageSides sides_for(const VisionConfig& config, std::int32_t width, std::int32_t height) {
  check(width > 0 && height > 0, "an image has pixels");
  if (config.fixed_size) {
    return {config.image_size, config.image_size};
  }
  if (std::int64_t{std::max(width, height)} > std::int64_t{longest_ratio} * std::min(width, height)) {
    throw Error(
        fmt::format("an image of {} x {} pixels has sides that differ more than {} times", width, height, longest_ratio));
  }
  if (config.fills) {
    return filled(config, width, height);
  }
  if (config.longest_side > 0) {
    return below_longest(config, width, height);
  }
  const ImageSides sides = within_limits(config, width, height);
  const std::int64_t tokens = std::int64_t{sides.width / config.unit()} * (sides.height / config.unit());
  if (tokens > config.max_tokens) {
    throw Error(fmt::format("an image of {} x {} pixels takes {} tokens, at most {} are possible", width, height, tokens,
                            config.max_tokens));
  }
  return sides;
}

std::vector<SquareWindow> windows_of(std::int32_t columns, std::int32_t lines, std::int32_t side) {
  if (side == 0) {
    return {{.columns = columns, .lines = lines}};
  }
  std::vector<SquareWindow> windows;
  for (std::int32_t row = 0; row < lines; row += side) {
    for (std::int32_t column = 0; column < columns; column += side) {
      windows.push_back({row, column, std::min(side, columns - column), std::min(side, lines - row)});
    }
  }
  return windows;
}

std::vector<PatchPlace> squares_of(std::span<const SquareWindow> windows) {
  std::vector<PatchPlace> squares;
  for (const SquareWindow& window : windows) {
    for (std::int32_t row = 0; row < window.lines; ++row) {
      for (std::int32_t column = 0; column < window.columns; ++column) {
        squares.push_back({window.row + row, window.column + column});
      }
    }
  }
  return squares;
}

std::vector<float> patches_of(const VisionConfig& config, const Image& image, std::span<const PatchPlace> squares) {
  std::array<std::array<float, 256>, 3> values;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t value = 0; value < 256; ++value) {
      values[channel][value] = static_cast<float>((static_cast<double>(value) / 255.0 - config.mean[channel]) /
                                                  static_cast<double>(config.deviation[channel]));
    }
  }
  const std::int32_t size = config.patch_size;
  const std::int64_t patches = std::int64_t{image.width / size} * (image.height / size);
  std::vector<float> out(static_cast<std::size_t>(patches * config.patch_values()));
  float* to = out.data();
  for (std::int64_t patch = 0; patch < patches; ++patch) {
    const PatchPlace place = patch_place(squares, patch, config.merge);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::int32_t y = 0; y < size; ++y) {
        const std::int64_t first = (std::int64_t{place.row} * size + y) * image.width + std::int64_t{place.column} * size;
        const std::uint8_t* from = image.rgb.data() + 3 * first + channel;
        for (std::int32_t x = 0; x < size; ++x) {
          *to++ = values[channel][from[3 * x]];
        }
      }
    }
  }
  return out;
}

}  // namespace rocmforge
