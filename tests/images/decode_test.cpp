#include "images/decode.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <random>
#include <string>

#include "base/error.h"
#include "base/work_budget.h"
#include "error_of.h"
#include "images/pixels.h"
#include "paths.h"

namespace rocmforge {
namespace {

using test::Bytes;
using test::error_of;
using test::image_file;
using testing::HasSubstr;

struct Golden {
  std::string file;
  int width = 0, height = 0;
  std::uint64_t hash = 0;
};

std::vector<Golden> goldens() {
  std::ifstream lines(test::test_data("golden/images/decoded.txt"));
  std::vector<Golden> all;
  for (Golden one; lines >> one.file >> std::dec >> one.width >> one.height >> std::hex >> one.hash;) {
    all.push_back(one);
  }
  return all;
}

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// A header that claims sides, and nothing behind it.
Bytes png_of_size(std::uint32_t width, std::uint32_t height) {
  Bytes file = image_file("rgb.png");
  for (int i = 0; i < 4; ++i) {
    file[16 + i] = static_cast<std::uint8_t>(width >> (24 - 8 * i));
    file[20 + i] = static_cast<std::uint8_t>(height >> (24 - 8 * i));
  }
  std::uint32_t crc = ~0U;
  for (std::size_t i = 12; i < 29; ++i) {
    crc ^= file[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
    }
  }
  for (int i = 0; i < 4; ++i) {
    file[29 + i] = static_cast<std::uint8_t>(~crc >> (24 - 8 * i));
  }
  return file;
}

TEST(DecodeImage, EveryFormatAsPillowReadsIt) {
  int count = 0;
  for (const Golden& golden : goldens()) {
    const Image image = decode_image(image_file(golden.file));
    EXPECT_EQ(image.width, golden.width) << golden.file;
    EXPECT_EQ(image.height, golden.height) << golden.file;
    EXPECT_EQ(test::hash_of(image.rgb), golden.hash) << golden.file;
    ++count;
  }
  EXPECT_EQ(count, 25);
}

TEST(DecodeImage, FormatsAreKnownByTheirFirstBytes) {
  EXPECT_EQ(format_of(image_file("rgb.png")), ImageFormat::png);
  EXPECT_EQ(format_of(image_file("photo.jpg")), ImageFormat::jpeg);
  EXPECT_EQ(format_of(image_file("lossy.webp")), ImageFormat::webp);
  EXPECT_EQ(format_of(image_file("plain.gif")), ImageFormat::gif);
  EXPECT_EQ(format_of(bytes_of("BM")), std::nullopt);
  EXPECT_EQ(format_of({}), std::nullopt);
}

TEST(DecodeImage, OtherFilesAreRefusedInOneLine) {
  EXPECT_EQ(error_of([] { decode_image({}); }), "the image has no bytes");
  EXPECT_EQ(error_of([] { decode_image(bytes_of("<svg>")); }),
            "the image is of an unknown format; read are " + readable_formats());
}

TEST(DecodeImage, WhatEndsEarlyIsRefusedInOneLine) {
  for (const Golden& golden : goldens()) {
    const Bytes file = image_file(golden.file);
    for (const std::size_t kept : {file.size() / 4, file.size() / 2}) {
      const std::string error = error_of([&] { decode_image(std::span(file).first(kept)); });
      EXPECT_NE(error, "no error") << golden.file << ' ' << kept;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    }
  }
}

TEST(DecodeImage, SidesAndPixelsAreRefusedBeforeMemoryIsTaken) {
  EXPECT_EQ(error_of([] { decode_image(png_of_size(65'535, 1)); }),
            "a PNG image: it has 65535 x 1 pixels, a side may have 32768");
  EXPECT_EQ(error_of([&] { decode_image(image_file("photo.jpg"), {.side = 36}); }),
            "a JPEG image: it has 37 x 23 pixels, a side may have 36");
  EXPECT_EQ(error_of([&] { decode_image(image_file("plain.gif"), {.side = 36}); }),
            "a GIF image: it has 37 x 23 pixels, a side may have 36");
  EXPECT_EQ(error_of([&] { decode_image(image_file("lossy.webp"), {.pixels = 850}); }),
            "a WebP image: it has 37 x 23 pixels, 850 in all are read");
  EXPECT_EQ(error_of([&] { decode_image(png_of_size(30'000, 30'000)); }),
            "a PNG image: it has 30000 x 30000 pixels, 67108864 in all are read");
  EXPECT_EQ(error_of([&] { decode_image(image_file("rgb.png"), {.bytes = 100}); }),
            fmt::format("the image has {} bytes, 100 are read", image_file("rgb.png").size()));
}

TEST(DecodeImage, DecodersAndScansAreLimited) {
  EXPECT_THAT(error_of([] { decode_image(image_file("tall.jpg"), {.decoder_bytes = 100'000}); }),
              HasSubstr("a JPEG image: "));
  EXPECT_EQ(error_of([] { decode_image(image_file("progressive.jpg"), {.painted_pixels = 851 * 3}); }),
            "a JPEG image: it has too many scans");
}

TEST(DecodeImage, WorkIsCountedAndCanBeStopped) {
  for (const char* file : {"rgb.png", "photo.jpg", "progressive.jpg", "lossy.webp", "plain.gif"}) {
    WorkBudget enough(10'000, "reading");
    decode_image(image_file(file), {}, {.budget = &enough});
    EXPECT_GE(enough.spent(), 37U * 23 / 4) << file;
    WorkBudget little(20, "reading");
    EXPECT_THAT(error_of([&] { decode_image(image_file(file), {}, {.budget = &little}); }), HasSubstr("reading")) << file;
    WorkBudget stopped(10'000, "reading");
    stopped.stop();
    EXPECT_THROW(decode_image(image_file(file), {}, {.budget = &stopped}), Interrupted) << file;
  }
}

TEST(DecodeImage, MemoryIsCountedBeforeItIsTaken) {
  const auto counted = [](const char* file) {
    std::int64_t bytes = 0;
    decode_image(image_file(file), {}, {.hold = [&bytes](std::int64_t more) { bytes += more; }});
    return bytes;
  };
  EXPECT_EQ(counted("rgb.png"), 37 * 23 * 3);
  EXPECT_EQ(counted("photo.jpg"), 37 * 23 * 3);
  EXPECT_EQ(counted("progressive.jpg"), 37 * 23 * 9);
  EXPECT_EQ(
      error_of([] { decode_image(image_file("rgb.png"), {}, {.hold = [](std::int64_t) { throw Error("no room"); }}); }),
      "a PNG image: no room");
}

/// Flips, overwrites, cuts and repeats bytes.
Bytes mutated(Bytes file, std::mt19937& random) {
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random()) % end; };
  for (std::size_t i = 1 + below(6); i > 0; --i) {
    const std::size_t at = below(file.size());
    switch (below(5)) {
      case 0:
        file[at] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:
        file[at] = static_cast<std::uint8_t>(random());
        break;
      case 2:
        file[at] = random() % 2 == 0 ? 0 : 255;
        break;
      case 3:
        file.resize(std::max<std::size_t>(file.size() - below(20), 1));
        break;
      default: {
        const Bytes piece(file.begin() + static_cast<std::ptrdiff_t>(at),
                          file.begin() + static_cast<std::ptrdiff_t>(std::min(at + below(30), file.size())));
        file.insert(file.begin() + static_cast<std::ptrdiff_t>(below(file.size())), piece.begin(), piece.end());
      }
    }
  }
  return file;
}

/// An image within the limits, or one line.
void expect_answer(const Bytes& file, const ImageLimits& limits) {
  try {
    const Image image = decode_image(file, limits);
    ASSERT_EQ(image.rgb.size(), static_cast<std::size_t>(image.width) * image.height * 3);
    ASSERT_LE(image.rgb.size() / 3, static_cast<std::size_t>(limits.pixels));
  } catch (const Error& error) {
    ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
  }
}

TEST(DecodeImage, TenThousandMutatedFilesOfEachFormatEndInAnImageOrALine) {
  // Small limits, so that a header that claims more costs nothing.
  const ImageLimits limits{.pixels = 20'000, .decoder_bytes = 4 << 20, .painted_pixels = 100'000};
  const std::vector<Golden> all = goldens();
  for (const std::string_view ending : {".png", ".jpg", ".webp", ".gif"}) {
    std::vector<Bytes> seeds;
    for (const Golden& golden : all) {
      if (golden.file.ends_with(ending)) {
        seeds.push_back(image_file(golden.file));
      }
    }
    std::mt19937 random(7);
    for (int i = 0; i < 10'000; ++i) {
      expect_answer(mutated(seeds[static_cast<std::size_t>(i) % seeds.size()], random), limits);
    }
  }
}

}  // namespace
}  // namespace rocmforge
