#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/vision/vision_model.h"
#include "ops/batch_plan.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// Adds an image to a request: its tokens are prompt tokens [first, first + image->tokens). Images are added in their order.
void add_image(Request& request, std::int32_t first, std::shared_ptr<const PreparedImage> image);

/// What a step needs beside the tokens of its images: their rows, where they see each other, and in multimodal RoPE their
/// positions and those of what follows.
class StepImages {
 public:
  /// `vision` may be null: then requests have no images. `on_host`: the model is split, and its host reads rows too.
  StepImages(const ModelConfig& text, VisionModel* vision, bool on_host)
      : text_(&text), vision_(vision), on_host_(on_host) {}

  /// For a chunk whose tokens were just added to `batch`.
  void add(const ScheduledChunk& chunk, BatchPlan& batch);
  /// Encodes the images of all chunks that were added since the last call, if there are any.
  void encode(BatchPlan& batch);
  /// The floating-point operations that encode() needs for a chunk.
  [[nodiscard]] double flops(const ScheduledChunk& chunk) const;
  /// Forgets these chunks.
  void clear() { images_.clear(); }

 private:
  void set_positions(const ScheduledChunk& chunk, BatchPlan& batch);

  const ModelConfig* text_;
  VisionModel* vision_;
  bool on_host_;
  std::vector<const PreparedImage*> images_;
  std::vector<std::int32_t> positions_;
};

}  // namespace rocmforge
