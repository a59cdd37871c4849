#include "audio/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>
#include <string>

#include "base/error.h"
#include "base/work_budget.h"
#include "error_of.h"
#include "paths.h"

namespace rocmforge {
namespace {

using test::error_of;
using testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

Bytes sound_file(const std::string& name) {
  std::ifstream file(test::test_data("golden/audio/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A WAV of 16-bit samples whose header claims `claimed` bytes of them.
Bytes wav(int rate, int channels, const std::vector<std::int16_t>& samples, std::uint32_t claimed) {
  Bytes file;
  const auto text = [&](std::string_view letters) { file.insert(file.end(), letters.begin(), letters.end()); };
  const auto number = [&](std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      file.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
  };
  text("RIFF");
  number(36 + claimed, 4);
  text("WAVEfmt ");
  number(16, 4);
  number(1, 2);
  number(static_cast<std::uint32_t>(channels), 2);
  number(static_cast<std::uint32_t>(rate), 4);
  number(static_cast<std::uint32_t>(rate * channels * 2), 4);
  number(static_cast<std::uint32_t>(channels * 2), 2);
  number(16, 2);
  text("data");
  number(claimed, 4);
  for (const std::int16_t sample : samples) {
    number(static_cast<std::uint16_t>(sample), 2);
  }
  return file;
}

Bytes wav(int rate, int channels, const std::vector<std::int16_t>& samples) {
  return wav(rate, channels, samples, static_cast<std::uint32_t>(samples.size() * 2));
}

/// The loudness of a tone in samples at encoder_rate, without their first and last quarter, which codecs spoil.
double loudness(const std::vector<float>& samples, double hertz) {
  double re = 0.0;
  double im = 0.0;
  const std::size_t begin = samples.size() / 4;
  const std::size_t end = begin + 800;  // whole periods of the multiples of 20 Hz
  for (std::size_t i = begin; i < end; ++i) {
    const double angle = 2 * std::numbers::pi * hertz * static_cast<double>(i) / encoder_rate;
    re += samples.at(i) * std::cos(angle);
    im += samples.at(i) * std::sin(angle);
  }
  return 2.0 * std::hypot(re, im) / 800;
}

TEST(DecodeSound, EveryFormatGivesTheMeanOfItsChannels) {
  for (const std::string file : {"pcm16.wav", "float.wav", "alaw.wav", "tones.flac", "tones.mp3", "vorbis.ogg"}) {
    const std::vector<float> samples = decode_sound(sound_file(file));
    EXPECT_NEAR(static_cast<double>(samples.size()), 2400, file == "tones.mp3" ? 900 : 1) << file;
    EXPECT_NEAR(loudness(samples, 440), 0.25, 0.01) << file;
    EXPECT_NEAR(loudness(samples, 880), 0.25, 0.01) << file;
    EXPECT_LE(loudness(samples, 1320), 0.005) << file;
  }
  const std::vector<float> opus = decode_sound(sound_file("opus.ogg"));  // 440 Hz played at 48,000 of 44,100
  EXPECT_NEAR(loudness(opus, 440.0 * 48 / 44.1), 0.5, 0.03);
}

TEST(DecodeSound, FormatsAreKnownByTheirFirstBytes) {
  EXPECT_EQ(sound_format_of(sound_file("pcm16.wav")), SoundFormat::wav);
  EXPECT_EQ(sound_format_of(sound_file("tones.flac")), SoundFormat::flac);
  EXPECT_EQ(sound_format_of(sound_file("tones.mp3")), SoundFormat::mp3);
  EXPECT_EQ(sound_format_of(sound_file("opus.ogg")), SoundFormat::ogg);
  EXPECT_EQ(sound_format_of(sound_file("tones.aiff")), std::nullopt);
  EXPECT_EQ(sound_format_of({}), std::nullopt);
  EXPECT_EQ(readable_sounds(), "WAV, FLAC, MP3, Ogg");
}

TEST(DecodeSound, BadFilesGetOneLine) {
  EXPECT_EQ(error_of([] { decode_sound({}); }), "the recording has no bytes");
  EXPECT_EQ(error_of([] { decode_sound(sound_file("tones.aiff")); }),
            "the recording is of an unknown format; read are WAV, FLAC, MP3, Ogg");
  EXPECT_EQ(error_of([] { decode_sound(sound_file("nan.wav")); }),
            "a recording in WAV: it has samples that are no numbers, or far beyond full scale");
  EXPECT_EQ(error_of([] { decode_sound(wav(16000, 1, {})); }), "a recording in WAV: it has no samples, or is broken");
  EXPECT_EQ(error_of([] { decode_sound(wav(16000, 9, std::vector<std::int16_t>(90))); }),
            "a recording in WAV: it has 9 channels, 8 are read");
  EXPECT_EQ(error_of([] { decode_sound(wav(200'000, 1, std::vector<std::int16_t>(90))); }),
            "a recording in WAV: it has 200000 samples a second, 1000 to 192000 are read");
  for (const std::string file : {"pcm16.wav", "tones.flac", "tones.mp3", "vorbis.ogg"}) {
    Bytes cut = sound_file(file);
    cut.resize(20);
    EXPECT_THAT(error_of([&] { decode_sound(cut); }), HasSubstr("a recording in ")) << file;
  }
}

TEST(DecodeSound, EveryChangedByteEndsInSamplesOrAnError) {
  for (const std::string file : {"pcm16.wav", "tones.flac", "tones.mp3", "vorbis.ogg", "opus.ogg"}) {
    const Bytes good = sound_file(file);
    for (std::size_t at = 0; at < 120; at += 3) {
      Bytes bad = good;
      bad[at] ^= 0xFF;
      EXPECT_THAT(error_of([&] { decode_sound(bad, {.seconds = 2}); }), testing::AnyOf("no error", HasSubstr("recording")))
          << file << " " << at;
    }
  }
}

TEST(DecodeSound, LimitsHoldWhateverAHeaderClaims) {
  const std::vector<std::int16_t> second(16000, 100);
  EXPECT_EQ(decode_sound(wav(16000, 1, second, 0x7FFFFFF0)).size(), 16000U);
  EXPECT_EQ(error_of([&] { decode_sound(wav(8000, 1, second), {.seconds = 1}); }),
            "a recording in WAV: it is longer than 1 seconds, which are read");
  EXPECT_EQ(error_of([&] { decode_sound(wav(16000, 1, second), {.samples = 8000}); }),
            "a recording in WAV: it is longer than 0 seconds, which are read");
  EXPECT_EQ(error_of([&] { decode_sound(wav(16000, 1, second), {.bytes = 1000}); }),
            "the recording has 32044 bytes, 1000 are read");
}

TEST(DecodeSound, TellsItsCostAndCanBeStopped) {
  const std::vector<std::int16_t> second(16000, 100);
  WorkBudget budget(1 << 20, "reading the request");
  std::int64_t held = 0;
  decode_sound(wav(8000, 1, second), {}, {.budget = &budget, .hold = [&](std::int64_t bytes) { held += bytes; }});
  EXPECT_GE(held, 16000 * 2 * 4 + 32000 * 4);
  EXPECT_GE(budget.spent(), 16000U * 4);
  WorkBudget small(20'000, "reading the request");
  EXPECT_THAT(error_of([&] { decode_sound(wav(8000, 1, second), {}, {.budget = &small}); }),
              HasSubstr("reading the request"));
  EXPECT_THROW(decode_sound(wav(8000, 1, second), {}, {.hold = [](std::int64_t) { throw Error("no memory"); }}), Error);
}

}  // namespace
}  // namespace rocmforge
