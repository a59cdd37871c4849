#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "images/image.h"
#include "paths.h"

namespace rocmforge::testing {

/// What a model that sees images gives, computed by transformers: tools/goldens/vision_golden.py.
struct VisionGolden {
  struct Seen {
    Image image;
    std::int32_t columns = 0;  ///< and lines of the squares that become rows
    std::int32_t lines = 0;
    std::vector<float> pixels;
    std::vector<float> rows;
  };
  std::vector<Seen> images;
  std::int64_t width = 0;            ///< of a row
  std::vector<std::int32_t> tokens;  ///< of a prompt with all images
  std::vector<float> logits;         ///< of all its tokens

  /// The token that stands for images.
  static constexpr std::int32_t image_token = 103;
};

inline std::string vision_path(const std::string& file) { return test::source_path("tests/golden/models/vision/" + file); }

inline VisionGolden read_vision_golden(const std::string& name) {
  std::ifstream file(vision_path(name + ".images"), std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::size_t at = 0;
  const auto take = [&](void* to, std::size_t size) {
    ASSERT_LE(at + size, bytes.size());
    std::memcpy(to, bytes.data() + at, size);
    at += size;
  };
  const auto number = [&] {
    std::uint32_t value = 0;
    take(&value, sizeof value);
    return value;
  };
  const auto floats = [&](std::vector<float>& to, std::size_t count) {
    to.resize(count);
    take(to.data(), count * sizeof(float));
  };
  VisionGolden golden;
  golden.images.resize(number());
  golden.tokens.resize(number());
  const std::size_t vocabulary = number();
  golden.width = number();
  for (VisionGolden::Seen& seen : golden.images) {
    seen.image.width = static_cast<int>(number());
    seen.image.height = static_cast<int>(number());
    seen.columns = static_cast<std::int32_t>(number());
    seen.lines = static_cast<std::int32_t>(number());
    const std::size_t pixels = number();
    const std::size_t rows = number();
    seen.image.rgb.resize(std::size_t{3} * static_cast<std::size_t>(seen.image.width * seen.image.height));
    take(seen.image.rgb.data(), seen.image.rgb.size());
    at = (at + 3) / 4 * 4;
    floats(seen.pixels, pixels);
    floats(seen.rows, rows * static_cast<std::size_t>(golden.width));
  }
  take(golden.tokens.data(), golden.tokens.size() * sizeof(std::int32_t));
  floats(golden.logits, golden.tokens.size() * vocabulary);
  EXPECT_EQ(at, bytes.size()) << name;
  return golden;
}

}  // namespace rocmforge::testing
