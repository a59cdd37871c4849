#pragma once

#include <cstdint>
#include <string>

#include "models/config/model_config.h"
#include "models/media_marks.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// What makes rows for the text model of an audio encoder's states.
enum class SoundProjector {
  mean,          ///< Qwen2-Audio, Qwen2.5-Omni: means of two states, a LayerNorm, one linear layer
  stacked,       ///< Voxtral: a LayerNorm, states joined, two linear layers
  stacked_norm,  ///< Ultravox: as stacked; an RMSNorm before each layer, the first one gated
};

/// The numbers of an audio encoder of Whisper's kind and of what is before and behind it, read from a file's metadata
/// (mmproj). A recording is heard in pieces, each by itself.
struct AudioConfig {
  SoundProjector projector = SoundProjector::mean;
  ModelConfig encoder;               ///< its layers, which see a whole piece
  std::int32_t bands = 0;            ///< of the spectrogram
  std::int32_t states = 0;           ///< of a whole piece, with a learned position each; two frames become one
  std::int32_t positions = 0;        ///< that the file has
  std::int32_t stack = 1;            ///< states that become a row
  std::int32_t projector_width = 0;  ///< outputs of its first layer; 0: it has one
  std::int32_t text_width = 0;       ///< of a row
  std::int32_t spectrum_frames = 0;  ///< a multiple of which the spectrogram has, silent behind the recording
  bool whole_pieces = false;         ///< the last piece is heard with the silence behind it
  bool silent_ends = false;          ///< convolutions see zeros behind a piece's frames, not silence or the next piece
  MediaMarks marks;

  /// Frames of a whole piece.
  [[nodiscard]] std::int32_t frames() const { return 2 * states; }
  /// Rows of a piece of so many states.
  [[nodiscard]] std::int32_t rows_of(std::int32_t count) const {
    return projector == SoundProjector::mean ? count / stack : (count + stack - 1) / stack;
  }
  [[nodiscard]] std::int32_t max_rows() const { return rows_of(states); }

  /// `text` is the model that takes the rows. Throws Error naming the key or tensor that is wrong, or the projector with the
  /// list of those supported.
  static AudioConfig from_gguf(const GgufFile& file, const ModelConfig& text);
};

/// Whether the file says that it has an audio encoder.
bool has_audio_encoder(const GgufFile& file);

}  // namespace rocmforge
