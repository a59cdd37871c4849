#include "models/vision/vision_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "models/config/clip_file.h"
#include "models/vision/image_patches.h"
#include "models/vision/image_tiles.h"

namespace rocmforge {
namespace {

constexpr std::int32_t most_images = 64;  ///< in a step

/// The names of the file for those that the parts of a block use.
WeightTable::FileNames file_names(bool swapped) {
  return [swapped](std::string_view name) {
    if (name == "v.patch_embd.1.weight") {
      return std::string("v.patch_embd.weight.1");
    }
    std::string in_file(name);
    if (!name.starts_with("blk.")) {
      return in_file;
    }
    const auto rename = [&](std::string_view from, std::string_view to) {
      const std::size_t at = name.find(from);
      if (at != std::string_view::npos) {
        in_file.replace(at, from.size(), to);
      }
    };
    rename(".attn_output.", ".attn_out.");
    if (swapped) {
      rename(".ffn_up.", ".ffn_down.");
      rename(".ffn_down.", ".ffn_up.");
    }
    return "v." + in_file;
  };
}

/// Of one image. Windows are most where it is a line: with c columns, l lines and windows of side w there are at most
/// (c + w - 1) (l + w - 1) / w^2, which for a given c l is largest at l = 1.
std::int32_t most_windows(const VisionConfig& config) {
  return config.window > 0 ? (config.max_tokens + config.window - 1) / config.window : 1;
}

std::array<std::uint32_t, 8> content_of(const Image& image) {
  const std::array<std::uint32_t, 8> pixels = sha256(image.rgb);
  std::vector<std::uint8_t> bytes;
  const auto add = [&](std::uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<std::uint8_t>(word >> shift));
    }
  };
  std::ranges::for_each(pixels, add);
  add(static_cast<std::uint32_t>(image.width));
  add(static_cast<std::uint32_t>(image.height));
  return sha256(bytes);
}

}  // namespace

std::unique_ptr<VisionModel> VisionModel::plan(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry,
                                               const DeviceInfo& device, int num_threads, const VisionOptions& options) {
  return std::unique_ptr<VisionModel>(new VisionModel(VisionConfig::from_gguf(file, text, options.max_tokens), file,
                                                      registry, device, num_threads, options));
}

VisionModel::VisionModel(VisionConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                         int num_threads, const VisionOptions& options)
    : MediaEncoder(file, file_names(config.swapped_layers), device,
                   {.states = config.max_tokens * config.patches_per_row() + config.extra_states(),
                    .sequences = std::max(std::min(most_images, config.max_tokens), most_windows(config)),
                    .max_rows = std::max(options.max_rows, config.max_tokens),
                    .row_width = config.row_width(),
                    .position_axes = config.encoder.position_axes,
                    .places_rows = config.places_rows(),
                    .overlap = options.overlap,
                    .small_weights = options.small_weights}),
      config_(std::move(config)) {
  Planner planner = make_planner(registry, device, num_threads);
  embedding_.emplace(planner, config_, max_states());
  plan_blocks(planner, config_.encoder);
  for (const std::int32_t layer : config_.deepstack) {
    deepstack_.push_back(RowMerger::of_layer(planner, config_, layer, config_.max_tokens));
  }
  merger_ = RowMerger::of_output(planner, config_, config_.max_tokens);
  planned().buffers.need(BufferName::normed, config_.encoder.hidden);
  count_weights(file, [](std::string_view name) { return !is_of_audio_encoder(name); });
}

PreparedImage VisionModel::prepare_tile(const Image& tile) const {
  PreparedImage prepared;
  prepared.width = tile.width;
  prepared.height = tile.height;
  prepared.grid_x = tile.width / config_.unit();
  prepared.grid_y = tile.height / config_.unit();
  prepared.windows = windows_of(prepared.grid_x, prepared.grid_y, config_.window);
  prepared.squares = squares_of(prepared.windows);
  prepared.pixels = patches_of(config_, tile, prepared.squares);
  prepared.tokens = config_.rows_of(prepared.grid_x, prepared.grid_y);
  prepared.content = content_of(tile);
  prepared.hash = std::uint64_t{prepared.content[0]} << 32 | prepared.content[1];
  return prepared;
}

std::vector<PreparedImage> VisionModel::prepare(const Image& image) const {
  TiledImage tiled = tiles_of(config_, image);
  std::vector<PreparedImage> parts;
  for (ImageTile& tile : tiled.tiles) {
    parts.push_back(prepare_tile(tile.image));
    parts.back().before = std::move(tile.before);
  }
  parts.back().after = std::move(tiled.after);
  return parts;
}

GivenRows VisionModel::encode_rows(std::span<const PreparedImage* const> images, const std::optional<GivenRows>& before) {
  GivenRows rows = begin_rows(before);
  std::size_t begin = 0;
  std::int64_t patches = 0;
  std::int64_t windows = 0;
  const auto run = [&](std::size_t end) {
    const auto step = images.subspan(begin, end - begin);
    std::int64_t more = 0;
    for (const PreparedImage* image : step) {
      more += image->tokens;
    }
    run_step(step, {.data = room_behind(rows, more), .stride = rows.stride, .count = more});
    rows.count += more;
    begin = end;
    patches = 0;
    windows = 0;
  };
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::int64_t own = patches_of_image(*images[i]) + config_.extra_states();
    const std::int64_t own_windows = std::ssize(images[i]->windows);
    if (i > begin && (patches + own > max_states() || windows + own_windows > max_sequences())) {
      run(i);
    }
    patches += own;
    windows += own_windows;
  }
  run(images.size());
  return rows;
}

std::vector<float> VisionModel::encode(std::span<const PreparedImage> images) {
  std::vector<const PreparedImage*> all;
  for (const PreparedImage& image : images) {
    all.push_back(&image);
  }
  const std::span<const float> rows = read_rows(encode_rows(all));
  return {rows.begin(), rows.end()};
}

void VisionModel::add_patches(const PreparedImage& image, std::int64_t done, std::int64_t patches) {
  add_sequence(patches);
  if (config_.encoder.position_axes == 2) {
    places_.clear();
    for (std::int64_t patch = done; patch < done + patches; ++patch) {
      const PatchPlace place = patch_place(image.squares, patch, config_.merge);
      places_.insert(places_.end(), {place.row, place.column});
    }
    batch().set_positions(places_, 2);
  }
}

void VisionModel::write_batch(std::span<const PreparedImage* const> images, bool windows) {
  begin_batch();
  for (const PreparedImage* image : images) {
    if (!windows) {
      add_patches(*image, 0, patches_of_image(*image) + config_.extra_states());
      continue;
    }
    std::int64_t done = 0;
    for (const SquareWindow& window : image->windows) {
      const std::int64_t patches = std::int64_t{window.columns} * window.lines * config_.patches_per_row();
      add_patches(*image, done, patches);
      done += patches;
    }
  }
  finish_batch();
  if (config_.places_rows()) {
    write_places(images);
  }
}

void VisionModel::write_places(std::span<const PreparedImage* const> images) {
  std::int32_t row = 0;
  for (const PreparedImage* image : images) {
    const std::int32_t line = image->grid_x + (config_.line_ends ? 1 : 0);
    for (const PatchPlace& square : image->squares) {
      batch().overwritten_rows.push_back(row + square.row * line + square.column);
      batch().given_rows.push_back(0);  // RowPlaces reads the squares in their order
    }
    row += image->tokens;
  }
}

void VisionModel::run_step(std::span<const PreparedImage* const> images, const MergedRows& out) {
  std::vector<PatchEmbedding::Part> parts;
  for (const PreparedImage* image : images) {
    parts.push_back({image->pixels, image->grid_x * config_.merge, image->grid_y * config_.merge, image->squares});
  }
  wait();  // an earlier step may still read the pixels
  embedding_->upload(parts, device(), pool());
  // Layers with the same sequences are computed together.
  std::int32_t begin = 0;
  do {  // once without layers, too
    const bool windows = config_.has_windows(begin);
    std::int32_t end = std::min(begin + 1, num_layers());
    while (end < num_layers() && config_.has_windows(end) == windows) {
      ++end;
    }
    write_batch(images, windows);
    run_batch([&](const StepArrays& arrays, Step& step) { compute(arrays, step, begin, end, out); });
    begin = end;
  } while (begin < num_layers());
}

void VisionModel::compute(const StepArrays& arrays, Step& step, std::int32_t begin, std::int32_t end,
                          const MergedRows& out) {
  Step rows = step;
  rows.tokens = (step.tokens - config_.extra_states()) / config_.patches_per_row();
  if (begin == 0) {
    run_all(embedding_->operations(), step);
  }
  for (std::int32_t index = begin; index < end; ++index) {
    run_block(index, arrays, step);
    if (const auto found = std::ranges::find(config_.deepstack, index); found != config_.deepstack.end()) {
      const auto slice = found - config_.deepstack.begin();
      MergedRows part = out;
      part.data += (slice + 1) * config_.text_width;
      deepstack_[static_cast<std::size_t>(slice)]->run(rows, part);
    }
  }
  if (end == num_layers()) {
    merger_->run(rows, out);
  }
}

}  // namespace rocmforge
