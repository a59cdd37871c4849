#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "images/image.h"
#include "models/config/model_config.h"
#include "models/media_marks.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// What makes rows for the text model of an encoder's patches.
enum class Projector {
  joined,       ///< Qwen: 2 x 2 patches joined, two linear layers; the same of some layers' states (deepstack)
  joined_norm,  ///< InternVL: 2 x 2 patches joined, a LayerNorm of them together, two linear layers
  normed_joined,  ///< LFM2-VL: a LayerNorm of each patch, 2 x 2 joined, in some files a LayerNorm of them, two linear layers
  joined_once,  ///< Idefics 3: 2 x 2 patches or more joined, one linear layer
  mean,         ///< Gemma 3: means of 4 x 4 patches, an RMSNorm, one linear layer
  scaled_mean,  ///< Gemma 4: means of 3 x 3 patches, standardised in some files, an RMSNorm without weights, one layer
  normed,       ///< Gemma 4 12B: as scaled_mean, of one patch
  downsampled,  ///< GLM-4V: 2 x 2 patches made one by a convolution, a layer, a LayerNorm and GELU, a gated part
  pixtral,      ///< 2 x 2 patches made one by a linear layer, or single ones; then two linear layers
};

/// How the table of learned positions is read for an image of another size.
enum class PositionScale {
  corners,  ///< linear, the table's corners are the image's
  centres,  ///< cubic, as PyTorch's grid_sample has it, between the centres of its positions
  means,    ///< linear between centres; along a side of fewer patches weighted means (PyTorch's interpolate with antialias)
};

/// How an image becomes tiles, each of which the encoder sees by itself.
enum class TileGrid {
  none,           ///< it does not
  multiples,      ///< Idefics 3: reduced or stretched to longest_side, then to whole tiles; marks of lines and columns
  nearest_ratio,  ///< InternVL: stretched to the grid whose proportions are nearest; behind several tiles the whole image
  of_large,       ///< LFM2-VL: as nearest_ratio, but only where the image has many more pixels than max_tokens; with marks
};

/// The numbers of an image encoder and of what is before and behind it, read from a file's metadata (mmproj).
struct VisionConfig {
  Projector projector = Projector::joined;
  ModelConfig encoder;            ///< its layers, which see a whole image
  std::int32_t patch_size = 0;    ///< pixels of a patch's sides
  std::int32_t image_size = 0;    ///< pixels of the sides that the learned positions are for
  std::int32_t frames = 1;        ///< convolutions of a patch, which is each frame of a video that stands still
  bool learned_positions = true;  ///< are added to the patches, beside or in place of a rotation
  PositionScale position_scale = PositionScale::corners;
  std::int32_t class_position = -1;  ///< the table's row of a state behind the patches; -1: there is none
  std::int32_t axis_positions = 0;   ///< of a table for columns and one for rows, whose sums they are; 0: one for both
  bool patch_norms = false;          ///< LayerNorms v.patch_norm.1 of the pixels, .2 of their product
  std::string product_norm;          ///< of the patches before their positions: its tensor without ".weight"; "": none
  std::string input_norm;            ///< of the patches before the first layer: its tensor without ".weight"; "": none
  std::int32_t merger_width = 0;     ///< between the last layers of Projector::downsampled and normed_joined
  std::int32_t merge = 1;            ///< sides, in patches, of the square that becomes a row
  std::int32_t window = 0;           ///< sides, in squares, of the windows inside of which patches see each other; 0: none
  std::int32_t window_pattern = 0;   ///< layers of which every window_pattern-th sees the whole image
  bool line_ends = false;            ///< a fixed row stands behind each line of squares but an image's last
  std::int32_t longest_side = 0;     ///< larger images are reduced to it, all are rounded up; 0: the area has limits
  TileGrid tile_grid = TileGrid::none;
  std::int32_t tile_side = 0;    ///< pixels; 0: image_size
  std::int32_t least_tiles = 1;  ///< of an image that is cut, without the whole image behind them
  std::int32_t most_tiles = 1;
  bool fixed_size = false;      ///< every image or tile gets image_size; else sides are kept as min and max allow
  bool fills = false;           ///< every image gets about max_tokens, its sides differ as they did
  bool keeps_a_square = false;  ///< a side is rounded to one at least before the limits are seen; Qwen's may be to none
  std::int32_t min_tokens = 0;  ///< rows of an image, or of a tile
  std::int32_t max_tokens = 0;
  std::array<float, 3> mean{};  ///< of the channels: a pixel is (value / 255 - mean) / deviation
  std::array<float, 3> deviation{};
  ResizeFilter filter = ResizeFilter::bicubic;
  std::vector<std::int32_t> deepstack;  ///< layers whose states become further slices of a row, ascending
  std::int32_t text_width = 0;          ///< of a slice
  bool swapped_layers = false;          ///< older files call ffn_up ffn_down, and the other way round
  bool both_directions = false;         ///< an image's tokens see each other in the text model
  MediaMarks marks;

  /// Pixels of the sides of the square that becomes a row.
  [[nodiscard]] std::int32_t unit() const { return patch_size * merge; }
  [[nodiscard]] std::int32_t patches_per_row() const { return merge * merge; }
  [[nodiscard]] std::int32_t side_of_tile() const { return tile_side > 0 ? tile_side : image_size; }
  /// States of a layer that no patch has.
  [[nodiscard]] std::int32_t extra_states() const { return class_position >= 0 ? 1 : 0; }
  [[nodiscard]] std::int64_t patch_values() const { return std::int64_t{3} * patch_size * patch_size; }
  /// Rows of an image of so many columns and lines of squares.
  [[nodiscard]] std::int32_t rows_of(std::int32_t columns, std::int32_t lines) const {
    return columns * lines + (line_ends ? lines - 1 : 0);
  }
  /// Whether the rows of a step do not follow each other as the squares do.
  [[nodiscard]] bool places_rows() const { return line_ends || window > 0; }
  /// Whether a patch sees its window alone in this layer.
  [[nodiscard]] bool has_windows(std::int32_t layer) const { return window > 0 && (layer + 1) % window_pattern != 0; }
  /// Sides of the table of learned positions.
  [[nodiscard]] std::int32_t position_side() const { return image_size / patch_size; }
  /// Values of a row: BatchPlan::given.
  [[nodiscard]] std::int64_t row_width() const {
    return std::int64_t{text_width} * (1 + static_cast<std::int64_t>(deepstack.size()));
  }

  /// `text` is the model that takes the rows. `max_tokens` limits the rows of an image, where these may be chosen; 0: the
  /// file's limit or the family's. Throws Error naming the key that is wrong, or the projector with the list of those
  /// supported.
  static VisionConfig from_gguf(const GgufFile& file, const ModelConfig& text, std::int32_t max_tokens = 0);
};

}  // namespace rocmforge
