#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace rocmforge::test {

/// Noise and a square wave, as tools/goldens/sound_golden.py makes them.
inline std::vector<float> signal(std::uint32_t seed, std::uint32_t count) {
  std::vector<float> samples;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t h = (i + seed * 1'000'003U) * 2654435761U;
    h = (h ^ (h >> 15)) * 2246822519U;
    const std::int64_t noise = static_cast<std::int64_t>(h >> 16) - 32768;
    // Python rounds quotients down.
    const auto loud = static_cast<std::int64_t>(std::floor(static_cast<double>(noise * (1 << seed % 8)) / 128));
    const std::int64_t height = 20 * static_cast<std::int64_t>(seed);
    const std::int64_t wave = i / (5 + 3 * seed) % 2 == 0 ? height : -height;
    samples.push_back(static_cast<float>(static_cast<double>(loud + wave) / 65536));
  }
  return samples;
}

}  // namespace rocmforge::test
