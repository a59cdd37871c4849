#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "images/image.h"
#include "paths.h"

namespace rocmforge::test {

using Bytes = std::vector<std::uint8_t>;

/// Noise, as tools/goldens/image_golden.py makes it.
inline Image pixels(std::uint64_t seed, int width, int height) {
  Image image{width, height, Bytes(static_cast<std::size_t>(width) * height * 3)};
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    auto h = static_cast<std::uint32_t>((i + seed * 1'000'003) * 2654435761U);
    h = (h ^ (h >> 15)) * 2246822519U;
    image.rgb[i] = static_cast<std::uint8_t>(h >> 24);
  }
  return image;
}

/// FNV-1a of 64 bits.
inline std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::uint8_t byte : bytes) {
    hash = (hash ^ byte) * 0x100000001B3;
  }
  return hash;
}

/// Of the folder golden/images.
inline Bytes image_file(const std::string& name) {
  std::ifstream file(test_data("golden/images/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace rocmforge::test
