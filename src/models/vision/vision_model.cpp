#include "models/vision/vision_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/sha256.h"
#include "memory/kv_group.h"
#include "models/config/clip_file.h"
#include "models/step/pass.h"
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

ModelOptions step_options(const VisionConfig& config, const DeviceInfo& device, const VisionOptions& options) {
  ModelOptions of_step;
  // Keys and values live for one layer of one step, so that their size hardly matters to a CPU.
  of_step.kv_dtype = device.is_gpu() ? DType::f16 : DType::f32;
  of_step.max_batch_tokens = config.max_tokens * config.patches_per_row() + config.extra_states();
  of_step.context_length = of_step.max_batch_tokens;
  of_step.max_sequences = std::max(std::min(most_images, config.max_tokens), most_windows(config));
  of_step.max_logit_rows = 1;
  of_step.graphs = false;
  of_step.given_rows = config.places_rows();  // a step's arrays have their places
  of_step.overlap = options.overlap;
  of_step.small_weights = options.small_weights;
  return of_step;
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
  return std::unique_ptr<VisionModel>(new VisionModel(file, text, registry, device, num_threads, options));
}

VisionModel::VisionModel(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry,
                         const DeviceInfo& device, int num_threads, const VisionOptions& options)
    : config_(VisionConfig::from_gguf(file, text, options.max_tokens)),
      options_(step_options(config_, device, options)),
      max_rows_(std::max(options.max_rows, config_.max_tokens)),
      on_gpu_(device.is_gpu()),
      plan_{WeightTable(file, file_names(config_.swapped_layers)), BufferPlan(options_.max_batch_tokens, 1)} {
  Planner planner(plan_, registry, device, num_threads, options_);
  embedding_.emplace(planner, config_, options_.max_batch_tokens);
  for (std::int32_t index = 0; index < config_.encoder.layers; ++index) {
    blocks_.push_back(std::make_unique<Block>(planner, config_.encoder, index, blocks_));
  }
  for (const std::int32_t layer : config_.deepstack) {
    deepstack_.push_back(RowMerger::of_layer(planner, config_, layer, config_.max_tokens));
  }
  merger_ = RowMerger::of_output(planner, config_, config_.max_tokens);
  plan_.buffers.need(BufferName::normed, config_.encoder.hidden);
  plan_.position_axes = config_.encoder.position_axes;
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_of_audio_encoder(tensor.name)) {
      plan_.weights.pass_over(tensor.name);  // of an audio encoder
    } else {
      parameters_ += static_cast<double>(tensor.tensor.shape.elems());
    }
  }
}

SequenceMemory::Size VisionModel::memory_size() const {
  const std::int32_t block_tokens = block_tokens_of(plan_.memory.groups());
  return {.blocks = {options_.max_batch_tokens / block_tokens + options_.max_sequences}};
}

std::size_t VisionModel::workspace_bytes() const {
  const std::size_t rows = static_cast<std::size_t>(max_rows_ * config_.row_width()) * sizeof(float);
  const KvGroups groups = plan_.memory.groups();
  return Rank::workspace_bytes(plan_, options_, on_gpu_) + embedding_->input_bytes() + rows +
         static_cast<std::size_t>(memory_size().blocks[0]) * block_bytes_of(groups[0], Side::device);
}

void VisionModel::load(Device& device, ThreadPool& pool) {
  check(!rank_, "an encoder is loaded once");
  pool_ = &pool;
  rank_.emplace(plan_, options_, device, Side::device, pool, Rank::Progress());
  embedding_->load(device);
  memory_.emplace(device, plan_.memory.groups(), memory_size());
  rows_ = device.allocate(static_cast<std::size_t>(max_rows_ * config_.row_width()) * sizeof(float), "rows of images");
  plan_.weights.warn_of_unused();
}

double VisionModel::flops(const PreparedImage& image) const {
  const auto patches = static_cast<double>(patches_of_image(image));
  return 2.0 * parameters_ * patches + 4.0 * patches * patches * config_.encoder.layers * config_.encoder.hidden;
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
  check(rank_.has_value(), "the encoder is loaded");
  GivenRows rows = before.value_or(GivenRows{.data = rows_.as<float>(), .stride = config_.row_width()});
  std::size_t begin = 0;
  std::int64_t patches = 0;
  std::int64_t windows = 0;
  const auto run = [&](std::size_t end) {
    const auto step = images.subspan(begin, end - begin);
    run_step(step, rows_.as<float>() + rows.count * rows.stride);
    for (const PreparedImage* image : step) {
      rows.count += image->tokens;
    }
    begin = end;
    patches = 0;
    windows = 0;
  };
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::int64_t own = patches_of_image(*images[i]) + config_.extra_states();
    const std::int64_t own_windows = std::ssize(images[i]->windows);
    if (i > begin && (patches + own > options_.max_batch_tokens || windows + own_windows > options_.max_sequences)) {
      run(i);
    }
    patches += own;
    windows += own_windows;
  }
  run(images.size());
  return rows;
}

std::span<const float> VisionModel::read_rows(const GivenRows& rows) {
  return rank_->read_back(rows.data, static_cast<std::size_t>(rows.count * rows.stride), rows_on_host_);
}

std::vector<float> VisionModel::encode(std::span<const PreparedImage> images) {
  std::vector<const PreparedImage*> all;
  for (const PreparedImage& image : images) {
    all.push_back(&image);
  }
  const std::span<const float> rows = read_rows(encode_rows(all));
  return {rows.begin(), rows.end()};
}

void VisionModel::add_patches(const PreparedImage& image, std::int64_t done, std::int64_t patches,
                              std::int32_t& first_block) {
  const auto block_tokens = static_cast<std::int64_t>(memory_->block_tokens());
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(patches), 0);
  std::vector<std::int32_t> blocks(static_cast<std::size_t>((patches + block_tokens - 1) / block_tokens));
  std::iota(blocks.begin(), blocks.end(), first_block);
  first_block += static_cast<std::int32_t>(blocks.size());
  batch_.add_sequence(tokens, 0, blocks, false);
  if (config_.encoder.position_axes == 2) {
    places_.clear();
    for (std::int64_t patch = done; patch < done + patches; ++patch) {
      const PatchPlace place = patch_place(image.squares, patch, config_.merge);
      places_.insert(places_.end(), {place.row, place.column});
    }
    batch_.set_positions(places_, 2);
  }
}

void VisionModel::write_batch(std::span<const PreparedImage* const> images, bool windows) {
  batch_.clear();
  std::int32_t first_block = 0;
  for (const PreparedImage* image : images) {
    if (!windows) {
      add_patches(*image, 0, patches_of_image(*image) + config_.extra_states(), first_block);
      continue;
    }
    std::int64_t done = 0;
    for (const SquareWindow& window : image->windows) {
      const std::int64_t patches = std::int64_t{window.columns} * window.lines * config_.patches_per_row();
      add_patches(*image, done, patches, first_block);
      done += patches;
    }
  }
  batch_.finish();
  batch_.validate(memory_->num_blocks(), memory_->block_tokens());
  if (config_.places_rows()) {
    write_places(images);
  }
}

void VisionModel::write_places(std::span<const PreparedImage* const> images) {
  std::int32_t row = 0;
  for (const PreparedImage* image : images) {
    const std::int32_t line = image->grid_x + (config_.line_ends ? 1 : 0);
    for (const PatchPlace& square : image->squares) {
      batch_.overwritten_rows.push_back(row + square.row * line + square.column);
      batch_.given_rows.push_back(0);  // RowPlaces reads the squares in their order
    }
    row += image->tokens;
  }
}

void VisionModel::run_step(std::span<const PreparedImage* const> images, float* out) {
  std::vector<PatchEmbedding::Part> parts;
  std::int64_t rows = 0;
  for (const PreparedImage* image : images) {
    parts.push_back({image->pixels, image->grid_x * config_.merge, image->grid_y * config_.merge, image->squares});
    rows += image->tokens;
  }
  const std::int64_t before = (out - rows_.as<float>()) / config_.row_width();
  check(before + rows <= max_rows_, "the images have more rows than the encoder was planned for");
  rank_->wait();  // an earlier step may still read the pixels
  embedding_->upload(parts, rank_->device(), *pool_);
  // Layers with the same sequences are computed together.
  const std::int32_t layers = config_.encoder.layers;
  std::int32_t begin = 0;
  do {  // once without layers, too
    const bool windows = config_.has_windows(begin);
    std::int32_t end = std::min(begin + 1, layers);
    while (end < layers && config_.has_windows(end) == windows) {
      ++end;
    }
    write_batch(images, windows);
    rank_->run(batch_, *memory_, Rank::Recorded::no, [&](const StepArrays& arrays, const RunOperations&) {
      compute(arrays, begin, end, {.data = out, .stride = config_.row_width(), .count = rows});
    });
    begin = end;
  } while (begin < layers);
}

void VisionModel::compute(const StepArrays& arrays, std::int32_t begin, std::int32_t end, const MergedRows& out) {
  Step step = begin_step(arrays, memory_->states(), *rank_);
  Step rows = step;
  rows.tokens = (step.tokens - config_.extra_states()) / config_.patches_per_row();
  if (begin == 0) {
    run_all(embedding_->operations(), step);
  }
  for (std::int32_t index = begin; index < end; ++index) {
    const Block& block = *blocks_[static_cast<std::size_t>(index)];
    find_pages(block.kv_place(), arrays, *memory_, step);
    run_all(block.mix(), step);
    run_all(block.finish(), step);
    if (const auto found = std::ranges::find(config_.deepstack, index); found != config_.deepstack.end()) {
      const auto slice = found - config_.deepstack.begin();
      MergedRows part = out;
      part.data += (slice + 1) * config_.text_width;
      deepstack_[static_cast<std::size_t>(slice)]->run(rows, part);
    }
  }
  if (end == config_.encoder.layers) {
    merger_->run(rows, out);
  }
}

}  // namespace rocmforge
