#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// What an encoder of Whisper's kind hears of a recording: energies of bands of frequencies in frames of 10 ms.
struct LogMel {
  std::int32_t bands = 0;
  std::vector<float> values;  ///< [frames, bands]

  [[nodiscard]] std::int64_t frames() const { return std::ssize(values) / bands; }
};

constexpr std::int64_t samples_per_frame = 160;

/// Equal to WhisperFeatureExtractor of transformers within 1e-4. `samples` at encoder_rate are followed by zeros up to a
/// multiple of `frames_of_piece` frames. A frame is the power spectrum of 400 samples around its beginning under a Hann
/// window, at both ends mirrored; in `bands` triangles, equally far from each other in Slaney's mel scale from 0 to 8,000 Hz
/// and of equal area; m = log10(max(power, 1e-10)); and then (max(m, most - 8) + 4) / 4, where `most` is the largest m of
/// all frames. Throws LogicError without samples or bands, or for pieces of one frame.
LogMel log_mel(std::span<const float> samples, std::int32_t bands, std::int64_t frames_of_piece);

}  // namespace rocmforge
