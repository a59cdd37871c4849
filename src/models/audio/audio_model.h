#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "memory/sequence_memory.h"
#include "models/audio/audio_config.h"
#include "models/audio/sound_embedding.h"
#include "models/audio/state_projector.h"
#include "models/model.h"
#include "models/parts/block.h"
#include "models/plan/model_plan.h"
#include "models/step/rank.h"

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

/// The audio encoder of a model (mmproj): from samples to rows that replace the embeddings of a recording's tokens. It is
/// planned and loaded as a Model is, on the same device. Only prepare() may be called by several threads.
class AudioModel {
 public:
  /// Allocates no memory for weights. `text` is the model that takes the rows. `file` and `registry` must outlive the
  /// encoder. Throws Error naming the tensor or key that does not fit.
  static std::unique_ptr<AudioModel> plan(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry,
                                          const DeviceInfo& device, int num_threads, const AudioOptions& options = {});
  AudioModel(const AudioModel&) = delete;
  AudioModel& operator=(const AudioModel&) = delete;

  /// Loads the weights; `device` and `pool` must outlive the encoder. Rows are put into `row_memory`, that of another
  /// encoder whose rows are as wide; null: into memory of its own.
  void load(Device& device, ThreadPool& pool, float* row_memory = nullptr);

  [[nodiscard]] const AudioConfig& config() const { return config_; }
  /// As Model::plan(); times are those of a step of one piece.
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const { return plan_.report.operations(); }
  /// Bytes as Model counts them, with memory for rows.
  [[nodiscard]] std::size_t packed_bytes() const { return plan_.weights.packed_bytes(on_gpu_); }
  [[nodiscard]] std::size_t workspace_bytes() const;

  /// The floating-point operations of encoding a piece, about.
  [[nodiscard]] double flops(const PreparedSound& sound) const;

  /// The pieces of a recording at encoder_rate, in the order of their tokens in the prompt. Throws Error with one line for
  /// one that is too short.
  [[nodiscard]] std::vector<PreparedSound> prepare(std::span<const float> samples) const;
  /// The most tokens of a recording of so many samples.
  [[nodiscard]] std::int64_t most_tokens(std::int64_t samples) const;

  /// Encodes pieces: rows [tokens of all, text_width] in the device's memory, in the order of its stream, until the next
  /// call without `before`: rows in the same memory, behind which those of the pieces are put.
  GivenRows encode_rows(std::span<const PreparedSound* const> sounds, const std::optional<GivenRows>& before = {});
  /// Rows in host memory, as encode_rows() gave them: waits. Valid until the next call of encode_rows().
  std::span<const float> read_rows(const GivenRows& rows);

 private:
  AudioModel(const GgufFile& file, const ModelConfig& text, const KernelRegistry& registry, const DeviceInfo& device,
             int num_threads, const AudioOptions& options);
  [[nodiscard]] SequenceMemory::Size memory_size() const;
  void write_batch(std::int32_t states);
  /// One step; the rows go to `out`.
  void run_step(const PreparedSound& sound, float* out);

  AudioConfig config_;
  ModelOptions options_;
  std::int32_t max_rows_;
  bool on_gpu_;
  double parameters_ = 0.0;
  ModelPlan plan_;
  std::optional<SoundEmbedding> embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<StateProjector> projector_;

  std::optional<Rank> rank_;
  std::optional<SequenceMemory> memory_;
  DeviceBuffer own_rows_;
  float* rows_ = nullptr;  ///< [max_rows, text_width]
  PinnedBuffer rows_on_host_;
  BatchPlan batch_;
};

}  // namespace rocmforge
