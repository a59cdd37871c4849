#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "images/image.h"
#include "models/media_encoder.h"
#include "models/vision/image_patches.h"
#include "models/vision/patch_embedding.h"
#include "models/vision/row_merger.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// An image, or a tile of one, as the encoder takes it, and what stands for it in the prompt.
struct PreparedImage {
  std::vector<float> pixels;  ///< of all patches, see patches_of()
  int width = 0;              ///< in pixels, after resizing
  int height = 0;
  std::vector<SquareWindow> windows;  ///< one where the encoder has none: windows_of()
  std::vector<PatchPlace> squares;    ///< of patches, that become rows: squares_of(windows)
  int grid_x = 0;                     ///< columns and lines of them
  int grid_y = 0;
  int tokens = 0;        ///< VisionConfig::rows_of(grid_x, grid_y)
  std::string before{};  ///< text with control tokens before its tokens, inside of MediaMarks of the whole image
  std::string after{};   ///< and behind them
  /// The SHA-256 of the sides and of the SHA-256 of the pixels after resizing: TokenSpan::content.
  std::array<std::uint32_t, 8> content{};
  std::uint64_t hash = 0;  ///< its first 64 bits
};

struct VisionOptions {
  std::int32_t max_tokens = 0;  ///< of an image whose size may be chosen; 0: the file's or the family's limit
  std::int32_t max_rows = 0;    ///< of all images of one encode(); 0: max_tokens
  bool overlap = true;          ///< as in ModelOptions
  bool small_weights = false;
};

/// The image encoder of a model (mmproj): from pixels to rows that replace the embeddings of an image's tokens. Only
/// prepare() may be called by several threads.
class VisionModel : public MediaEncoder {
 public:
  /// Allocates no memory for weights. `text` is the model that takes the rows. `file` and `registry` must outlive the
  /// encoder. Throws Error naming the tensor or key that does not fit.
  static std::unique_ptr<VisionModel> plan(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry,
                                           const DeviceInfo& device, int num_threads, const VisionOptions& options = {});
  ~VisionModel() override { wait(); }

  [[nodiscard]] const VisionConfig& config() const { return config_; }
  /// Texts of control tokens before and behind an image, the placeholder that the chat template prints.
  [[nodiscard]] const MediaMarks& marks() const { return config_.marks; }

  /// The floating-point operations of encoding an image, about.
  [[nodiscard]] double flops(const PreparedImage& image) const { return flops_of(patches_of_image(image)); }

  /// Resizes an image to the size that the encoder takes, cuts it where it sees tiles, and normalises them: in the order of
  /// their tokens in the prompt. Throws Error with one line for an image that it can't take.
  [[nodiscard]] std::vector<PreparedImage> prepare(const Image& image) const;

  /// Encodes images, several at once where they fit in a step: rows [tokens of all, VisionConfig::row_width()] in the
  /// device's memory, in the order of its stream, until the next call without `before`: rows in row_memory(), behind which
  /// those of the images are put. At most VisionOptions::max_rows together.
  GivenRows encode_rows(std::span<const PreparedImage* const> images, const std::optional<GivenRows>& before = {});
  /// The same, in host memory: waits.
  std::vector<float> encode(std::span<const PreparedImage> images);

 private:
  VisionModel(VisionConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
              int num_threads, const VisionOptions& options);
  [[nodiscard]] std::size_t input_bytes() const override { return embedding_->input_bytes(); }
  void load_inputs(Device& device) override { embedding_->load(device); }
  [[nodiscard]] std::int64_t patches_of_image(const PreparedImage& image) const {
    return std::ssize(image.squares) * config_.patches_per_row();
  }
  [[nodiscard]] PreparedImage prepare_tile(const Image& tile) const;
  /// Sequences are images, or windows of images.
  void write_batch(std::span<const PreparedImage* const> images, bool windows);
  /// A sequence of the next `patches` of an image, or states behind them, of which `done` are behind it.
  void add_patches(const PreparedImage& image, std::int64_t done, std::int64_t patches);
  /// One step; the rows go to `out`.
  void run_step(std::span<const PreparedImage* const> images, const MergedRows& out);
  /// Layers [begin, end): with the first one what is before it, and with the last one what is behind it.
  void compute(const StepArrays& arrays, Step& step, std::int32_t begin, std::int32_t end, const MergedRows& out);
  /// Where the rows of the images' squares go.
  void write_places(std::span<const PreparedImage* const> images);

  VisionConfig config_;
  std::optional<PatchEmbedding> embedding_;
  std::vector<std::unique_ptr<RowMerger>> deepstack_;  ///< of VisionConfig::deepstack
  std::unique_ptr<RowMerger> merger_;
  std::vector<std::int32_t> places_;
};

}  // namespace rocmforge
