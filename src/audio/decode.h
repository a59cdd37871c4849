#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "audio/sound.h"
#include "base/work_budget.h"

namespace rocmforge {

enum class SoundFormat : std::uint8_t { wav, flac, mp3, ogg };
std::string_view name(SoundFormat format);

/// By the file's first bytes; empty for other files.
std::optional<SoundFormat> sound_format_of(std::span<const std::uint8_t> file);

/// The formats that this build reads: "WAV, FLAC, MP3, Ogg"; "none" where it was made without libsndfile.
std::string readable_sounds();

/// What a recording may cost. What a header claims is not trusted: reading ends where a limit is passed.
struct SoundLimits {
  std::size_t bytes = std::size_t{64} << 20;  ///< of the file
  int seconds = 1200;
  std::int64_t samples = std::int64_t{64} << 20;  ///< of one channel, at the file's rate
  int channels = 8;
};

/// What decoding uses is told as it goes.
struct SoundCost {
  WorkBudget* budget = nullptr;                    ///< null: no limit
  std::function<void(std::int64_t bytes)> hold{};  ///< called before memory is allocated; may throw
};

/// The mean of a recording's channels at encoder_rate. Spends units of the budget, and can be stopped by it. Throws Error
/// with one line: another format, a broken file, an empty one, or one past the limits.
std::vector<float> decode_sound(std::span<const std::uint8_t> file, const SoundLimits& limits = {},
                                const SoundCost& cost = {});

}  // namespace rocmforge
