#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/audio/audio_config.h"
#include "models/audio/sound_embedding.h"
#include "models/audio/state_projector.h"
#include "models/media_encoder.h"

namespace rocmforge {

/// A piece of a recording as the encoder takes it.
struct PreparedSound {
  std::vector<float> frames;  ///< of the spectrogram, [frames, bands]
  std::int32_t states = 0;    ///< that they become
  bool ends_odd = false;      ///< there is no frame for the last state's second half: SoundEmbedding::run
  std::int32_t tokens = 0;    ///< AudioConfig::rows_of(states)
  /// The SHA-256 of `states` and of the frames: TokenSpan::content.
  std::array<std::uint32_t, 8> content{};
};

struct AudioOptions {
  std::int32_t max_rows = 0;  ///< of all pieces of one encode_rows(); 0: those of one piece
  bool overlap = true;        ///< as in ModelOptions
  bool small_weights = false;
};

/// The audio encoder of a model (mmproj): from samples to rows that replace the embeddings of a recording's tokens. Only
/// prepare() may be called by several threads.
class AudioModel : public MediaEncoder {
 public:
  /// Allocates no memory for weights. `text` is the model that takes the rows. `file` and `registry` must outlive the
  /// encoder. Throws Error naming the tensor or key that does not fit.
  static std::unique_ptr<AudioModel> plan(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry,
                                          const DeviceInfo& device, int num_threads, const AudioOptions& options = {});
  ~AudioModel() override { wait(); }

  [[nodiscard]] const AudioConfig& config() const { return config_; }

  /// The floating-point operations of encoding a piece, about.
  [[nodiscard]] double flops(const PreparedSound& sound) const { return flops_of(sound.states); }

  /// The pieces of a recording at encoder_rate, in the order of their tokens in the prompt. Throws Error with one line for
  /// one that is too short.
  [[nodiscard]] std::vector<PreparedSound> prepare(std::span<const float> samples) const;
  /// The most tokens of a recording of so many samples.
  [[nodiscard]] std::int64_t most_tokens(std::int64_t samples) const;

  /// Encodes pieces: rows [tokens of all, text_width] in the device's memory, in the order of its stream, until the next
  /// call without `before`: rows in the same memory, behind which those of the pieces are put.
  GivenRows encode_rows(std::span<const PreparedSound* const> sounds, const std::optional<GivenRows>& before = {});

 private:
  AudioModel(AudioConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
             int num_threads, const AudioOptions& options);
  [[nodiscard]] std::size_t input_bytes() const override { return embedding_->input_bytes(); }
  void load_inputs(Device& device) override { embedding_->load(device); }
  /// One step; the rows go to `out`.
  void run_step(const PreparedSound& sound, float* out);

  AudioConfig config_;
  std::optional<SoundEmbedding> embedding_;
  std::unique_ptr<StateProjector> projector_;
};

}  // namespace rocmforge
