#include "models/vision/image_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

Image in_size(const Image& image, std::int32_t width, std::int32_t height, ResizeFilter filter) {
  return image.width == width && image.height == height ? image : resize(image, width, height, filter);
}

/// The square of sides `side` at (x, y).
Image square_of(const Image& image, std::int32_t x, std::int32_t y, std::int32_t side) {
  Image part{.width = side, .height = side, .rgb = {}};
  part.rgb.reserve(std::size_t{3} * static_cast<std::size_t>(side) * static_cast<std::size_t>(side));
  for (std::int32_t line = y; line < y + side; ++line) {
    const auto from = image.rgb.begin() + std::ptrdiff_t{3} * (std::ptrdiff_t{line} * image.width + x);
    part.rgb.insert(part.rgb.end(), from, from + std::ptrdiff_t{3} * side);
  }
  return part;
}

/// The tiles of an image that has been resized to a grid of them, line by line.
std::vector<ImageTile> cut(const Image& image, TileCounts grid, std::int32_t side) {
  std::vector<ImageTile> tiles;
  for (std::int32_t line = 0; line < grid.lines; ++line) {
    for (std::int32_t column = 0; column < grid.columns; ++column) {
      tiles.push_back({.image = square_of(image, column * side, line * side, side)});
    }
  }
  return tiles;
}

/// The tiles of an image that is stretched to a grid of them.
std::vector<ImageTile> stretched(const VisionConfig& config, const Image& image, TileCounts grid) {
  const std::int32_t side = config.side_of_tile();
  return cut(in_size(image, grid.columns * side, grid.lines * side, config.filter), grid, side);
}

TiledImage in_nearest_ratio(const VisionConfig& config, const Image& image) {
  TiledImage tiled;
  tiled.tiles = stretched(config, image, grid_of_nearest_ratio(config, image.width, image.height));
  if (tiled.tiles.size() > 1) {
    tiled.tiles.push_back({.image = in_size(image, config.side_of_tile(), config.side_of_tile(), config.filter)});
  }
  return tiled;
}

/// Idefics 3 has two empty lines behind the last line of tiles, in place of one.
TiledImage in_multiples(const VisionConfig& config, const Image& image) {
  const std::int32_t side = config.image_size;
  const std::string mark = config.marks.after;
  const MultipleSides sides = sides_of_multiples(config, image.width, image.height);
  const Image first = in_size(image, sides.first.width, sides.first.height, config.filter);
  const Image whole = in_size(first, sides.grid.columns * side, sides.grid.lines * side, config.filter);
  TiledImage tiled;
  if (sides.grid.columns * sides.grid.lines > 1) {
    tiled.tiles = cut(whole, sides.grid, side);
    for (std::size_t i = 0; i < tiled.tiles.size(); ++i) {
      const auto line = static_cast<std::int32_t>(i) / sides.grid.columns;
      const auto column = static_cast<std::int32_t>(i) % sides.grid.columns;
      tiled.tiles[i].before =
          fmt::format("{}{}<row_{}_col_{}>", line > 0 && column == 0 ? "\n" : "", mark, line + 1, column + 1);
    }
  }
  const std::string line_ends = tiled.tiles.empty() ? "" : "\n\n";
  tiled.tiles.push_back({.image = in_size(whole, side, side, config.filter), .before = line_ends + mark + "<global-img>"});
  return tiled;
}

/// Whether an image has more than twice the pixels of the most rows, which is what transformers tolerates for LFM2-VL.
bool is_large(const VisionConfig& config, const Image& image) {
  const auto rounded = [&](std::int32_t side) {
    return std::max(std::nearbyint(static_cast<double>(side) / config.unit()) * config.unit(),
                    static_cast<double>(config.patch_size));
  };
  return rounded(image.width) * rounded(image.height) > 2.0 * config.max_tokens * config.unit() * config.unit();
}

TiledImage whole(const VisionConfig& config, const Image& image) {
  const ImageSides sides = sides_for(config, image.width, image.height);
  TiledImage whole;
  whole.tiles.push_back({.image = in_size(image, sides.width, sides.height, config.filter)});
  return whole;
}

TiledImage of_large(const VisionConfig& config, const Image& image) {
  TiledImage reduced = whole(config, image);
  if (!is_large(config, image)) {
    return reduced;
  }
  const TileCounts grid = grid_of_nearest_ratio(config, image.width, image.height);
  TiledImage tiled;
  tiled.tiles = stretched(config, image, grid);
  for (std::size_t i = 0; i < tiled.tiles.size(); ++i) {
    const auto at = static_cast<std::int32_t>(i);
    tiled.tiles[i].before = fmt::format("<|img_row_{}_col_{}|>", at / grid.columns + 1, at % grid.columns + 1);
  }
  tiled.tiles.push_back({.image = std::move(reduced.tiles.front().image), .before = "<|img_thumbnail|>"});
  return tiled;
}

}  // namespace

MultipleSides sides_of_multiples(const VisionConfig& config, std::int32_t width, std::int32_t height) {
  const auto even = [](double side) {
    const auto whole = static_cast<std::int32_t>(side);
    return std::max(whole + whole % 2, 1);
  };
  const auto tiles = [&](double side) {
    return (static_cast<std::int32_t>(side) + config.image_size - 1) / config.image_size;
  };
  MultipleSides sides;
  const double ratio = static_cast<double>(width) / height;
  sides.first = width >= height ? ImageSides{config.longest_side, even(config.longest_side / ratio)}
                                : ImageSides{even(config.longest_side * ratio), config.longest_side};
  const double kept = static_cast<double>(sides.first.width) / sides.first.height;
  if (sides.first.width >= sides.first.height) {
    sides.grid.columns = tiles(sides.first.width);
    sides.grid.lines = std::max(tiles(sides.grid.columns * config.image_size / kept), 1);
  } else {
    sides.grid.lines = tiles(sides.first.height);
    sides.grid.columns = std::max(tiles(sides.grid.lines * config.image_size * kept), 1);
  }
  return sides;
}

TileCounts grid_of_nearest_ratio(const VisionConfig& config, std::int32_t width, std::int32_t height) {
  std::vector<TileCounts> grids;
  for (std::int32_t columns = 1; columns <= config.most_tiles; ++columns) {
    for (std::int32_t lines = 1; columns * lines <= config.most_tiles; ++lines) {
      if (columns * lines >= config.least_tiles) {
        grids.push_back({columns, lines});
      }
    }
  }
  std::ranges::stable_sort(grids, {}, [](const TileCounts& grid) { return grid.columns * grid.lines; });
  const double ratio = static_cast<double>(width) / height;
  const double area = static_cast<double>(width) * height;
  const double tile = static_cast<double>(config.side_of_tile()) * config.side_of_tile();
  TileCounts best;
  double least = INFINITY;
  for (const TileCounts& grid : grids) {
    const double difference = std::abs(ratio - static_cast<double>(grid.columns) / grid.lines);
    if (difference < least || (difference == least && area > 0.5 * tile * grid.columns * grid.lines)) {
      least = difference;
      best = grid;
    }
  }
  return best;
}

TiledImage tiles_of(const VisionConfig& config, const Image& image) {
  check(image.width > 0 && image.height > 0, "an image has pixels");
  switch (config.tile_grid) {
    case TileGrid::none:
      break;
    case TileGrid::multiples:
      return in_multiples(config, image);
    case TileGrid::nearest_ratio:
      return in_nearest_ratio(config, image);
    case TileGrid::of_large:
      return of_large(config, image);
  }
  return whole(config, image);
}

}  // namespace rocmforge
