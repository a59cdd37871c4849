#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "models/audio/audio_config.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"

namespace rocmforge {

/// The rows that an audio encoder's first layer reads, in Buffers::hidden: two convolutions over three neighbours with GELU
/// behind each, of which the second one takes every other state, and the learned positions. Not moved.
class SoundEmbedding {
 public:
  SoundEmbedding(Planner& planner, const AudioConfig& config);
  SoundEmbedding(const SoundEmbedding&) = delete;
  SoundEmbedding& operator=(const SoundEmbedding&) = delete;

  /// Bytes of memory for frames: of a GPU, and pinned ones of the host.
  [[nodiscard]] std::size_t input_bytes() const;
  void load(Device& device);

  /// Gives the device a piece of a spectrogram, [frames, bands], which becomes so many states; zeros are around it. On a GPU
  /// the copy is on its stream. No earlier step may still run.
  void upload(std::span<const float> frames, std::int64_t states, Device& device);
  /// For a step of as many tokens as the piece has states. `ends_odd`: zeros take the place of the first convolution's last
  /// row, whose frame is behind the piece.
  void run(const Step& step, bool ends_odd) const;

 private:
  /// The first convolution of `rows` inputs, to every third slot of Buffers::projected from slot `slot` on.
  void convolve(const Step& step, const float* inputs, std::int64_t rows, std::int64_t slot) const;
  void clear_slot(const Step& step, std::int64_t slot) const;

  std::int64_t hidden_;
  std::int64_t input_;  ///< values of three frames
  std::int64_t states_;
  Linear first_;
  Linear second_;
  Resolved<GatedActivation> first_gelu_;
  Resolved<GatedActivation> second_gelu_;
  Resolved<OverwriteRows> put_;
  Resolved<ResidualAdd> add_;
  const WeightVector* positions_ = nullptr;
  std::vector<std::int32_t> slots_;  ///< 0, 1, 2, ...
  const WeightVector* zero_row_ = nullptr;
  const IntegerVector* slot_ids_ = nullptr;
  PinnedBuffer staged_;  ///< three frames for each row of the first convolution, even rows first; read in place by a CPU
  DeviceBuffer memory_;  ///< GPU: the same
  const float* inputs_ = nullptr;
};

}  // namespace rocmforge
