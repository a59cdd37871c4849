#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "paths.h"
#include "sound_signal.h"

namespace rocmforge::testing {

/// What an audio encoder gives, computed by transformers: tools/goldens/audio_golden.py.
struct AudioGolden {
  struct Heard {
    std::vector<float> samples;
    std::vector<float> rows;
  };
  std::vector<Heard> recordings;
  std::uint32_t width = 0;
};

inline std::string audio_path(const std::string& file) { return test::source_path("tests/golden/models/audio/" + file); }

inline AudioGolden read_audio_golden(const std::string& name) {
  std::ifstream file(audio_path(name + ".rows"), std::ios::binary);
  const auto number = [&] {
    std::uint32_t value = 0;
    file.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  };
  AudioGolden golden;
  golden.recordings.resize(number());
  golden.width = number();
  for (AudioGolden::Heard& heard : golden.recordings) {
    const std::uint32_t seed = number();
    heard.samples = test::signal(seed, number());
    heard.rows.resize(std::size_t{number()} * golden.width);
    file.read(reinterpret_cast<char*>(heard.rows.data()), static_cast<std::streamsize>(heard.rows.size() * sizeof(float)));
  }
  EXPECT_TRUE(file.good()) << name;
  return golden;
}

/// What a text model gives behind recordings: tools/goldens/heard_golden.py.
struct HeardGolden {
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;  ///< of the last token

  /// The token that stands for recordings, which are recordings 1 and 2 of the encoder's file.
  static constexpr std::int32_t sound_token = 107;
};

inline HeardGolden read_heard_golden(const std::string& name) {
  std::ifstream file(audio_path(name + ".heard"), std::ios::binary);
  std::uint32_t counts[2] = {};
  file.read(reinterpret_cast<char*>(counts), sizeof counts);
  HeardGolden golden;
  golden.tokens.resize(counts[0]);
  golden.logits.resize(counts[1]);
  file.read(reinterpret_cast<char*>(golden.tokens.data()), static_cast<std::streamsize>(counts[0] * sizeof(std::int32_t)));
  file.read(reinterpret_cast<char*>(golden.logits.data()), static_cast<std::streamsize>(counts[1] * sizeof(float)));
  EXPECT_TRUE(file.good()) << name;
  return golden;
}

}  // namespace rocmforge::testing
