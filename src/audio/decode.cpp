#include "audio/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "audio/reader.h"
#include "base/bytes.h"
#include "base/error.h"

namespace rocmforge {
namespace {

constexpr std::array<std::string_view, 4> names = {"WAV", "FLAC", "MP3", "Ogg"};

/// Layer III of MPEG 1 or 2, by the first two bytes of a frame.
bool is_mp3_frame(std::span<const std::uint8_t> file) {
  return file.size() >= 2 && file[0] == 0xFF && (file[1] & 0xE6) == 0xE2 && (file[1] & 0x18) != 0x08;
}

}  // namespace

std::string_view name(SoundFormat format) { return names[static_cast<std::size_t>(format)]; }

std::optional<SoundFormat> sound_format_of(std::span<const std::uint8_t> file) {
  if (has_bytes(file, 0, "RIFF") && has_bytes(file, 8, "WAVE")) {
    return SoundFormat::wav;
  }
  if (has_bytes(file, 0, "fLaC")) {
    return SoundFormat::flac;
  }
  if (has_bytes(file, 0, "ID3") || is_mp3_frame(file)) {
    return SoundFormat::mp3;
  }
  if (has_bytes(file, 0, "OggS")) {
    return SoundFormat::ogg;
  }
  return std::nullopt;
}

std::string readable_sounds() { return reads_sounds() ? fmt::format("{}", fmt::join(names, ", ")) : "none"; }

std::vector<float> decode_sound(std::span<const std::uint8_t> file, const SoundLimits& limits, const SoundCost& cost) {
  if (file.empty()) {
    throw Error("the recording has no bytes");
  }
  if (file.size() > limits.bytes) {
    throw Error(fmt::format("the recording has {} bytes, {} are read", file.size(), limits.bytes));
  }
  const auto format = sound_format_of(file);
  if (!format) {
    throw Error(fmt::format("the recording is of an unknown format; read are {}", readable_sounds()));
  }
  return with_context(fmt::format("a recording in {}", name(*format)), [&] {
    const Sound sound = read_sound(file, limits, cost);
    const std::int64_t count = std::ssize(sound.samples);
    if (cost.hold) {
      cost.hold(resampled_bytes(count, sound.rate, encoder_rate));
    }
    constexpr std::int64_t units_per_sample = 4;
    spend(cost.budget, static_cast<std::uint64_t>(count * units_per_sample));
    return resample(sound.samples, sound.rate, encoder_rate);
  });
}

}  // namespace rocmforge
