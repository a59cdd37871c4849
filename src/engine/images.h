#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "models/audio/audio_model.h"
#include "models/vision/vision_model.h"
#include "ops/batch_plan.h"
#include "schedule/sequence.h"

namespace rocmforge {

/// The tokens of an image, or of a piece of a recording; 0 for none.
std::int32_t tokens_of(const EncoderInput& input);

/// Adds an image, or a piece of a recording, to a request: its tokens are prompt tokens [first, first + tokens_of(input)).
/// They are added in their order.
void add_input(Request& request, std::int32_t first, EncoderInput input);

/// What a step needs beside the tokens of its images and recordings: their rows, where they see each other, and in
/// multimodal RoPE their positions and those of what follows.
class StepImages {
 public:
  /// Without `vision` requests have no images, without `audio` no recordings. `on_host`: the model is split, and its host
  /// reads rows too.
  StepImages(const ModelConfig& text, VisionModel* vision, AudioModel* audio, bool on_host)
      : text_(&text), vision_(vision), audio_(audio), on_host_(on_host) {}

  /// For a chunk whose tokens were just added to `batch`.
  void add(const ScheduledChunk& chunk, BatchPlan& batch);
  /// Encodes the images and recordings of all chunks that were added since the last call, if there are any.
  void encode(BatchPlan& batch);
  /// The floating-point operations that encode() needs for a chunk.
  [[nodiscard]] double flops(const ScheduledChunk& chunk) const;
  /// Forgets these chunks.
  void clear() { inputs_.clear(); }

 private:
  /// Encodes inputs_ from `begin` on that have one encoder; returns where they end.
  std::size_t encode_alike(std::size_t begin, std::optional<GivenRows>& rows);
  void set_positions(const ScheduledChunk& chunk, BatchPlan& batch);

  const ModelConfig* text_;
  VisionModel* vision_;
  AudioModel* audio_;
  bool on_host_;
  std::vector<const EncoderInput*> inputs_;
  std::vector<const PreparedImage*> images_;  ///< that encode() gives the encoder together
  std::vector<std::int32_t> positions_;
};

}  // namespace rocmforge
