#include "images/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "images/codec.h"

namespace rocmforge {
namespace {

struct Codec {
  ImageFormat format;
  std::string_view name;
  Image (*decode)(const ImageFile& file);  ///< null in a build without its library
};

#if ROCMFORGE_PNG
constexpr auto png = decode_png;
#else
constexpr Image (*png)(const ImageFile&) = nullptr;
#endif
#if ROCMFORGE_JPEG
constexpr auto jpeg = decode_jpeg;
#else
constexpr Image (*jpeg)(const ImageFile&) = nullptr;
#endif
#if ROCMFORGE_WEBP
constexpr auto webp = decode_webp;
#else
constexpr Image (*webp)(const ImageFile&) = nullptr;
#endif
#if ROCMFORGE_GIF
constexpr auto gif = decode_gif;
#else
constexpr Image (*gif)(const ImageFile&) = nullptr;
#endif

constexpr std::array codecs = {Codec{ImageFormat::png, "PNG", png}, Codec{ImageFormat::jpeg, "JPEG", jpeg},
                               Codec{ImageFormat::webp, "WebP", webp}, Codec{ImageFormat::gif, "GIF", gif}};

const Codec& codec_of(ImageFormat format) { return codecs[static_cast<std::size_t>(format)]; }

}  // namespace

std::string_view name(ImageFormat format) { return codec_of(format).name; }

std::optional<ImageFormat> format_of(std::span<const std::uint8_t> file) {
  if (has_bytes(file, 0, "\x89PNG\r\n\x1a\n")) {
    return ImageFormat::png;
  }
  if (has_bytes(file, 0, "\xff\xd8\xff")) {
    return ImageFormat::jpeg;
  }
  if (has_bytes(file, 0, "RIFF") && has_bytes(file, 8, "WEBP")) {
    return ImageFormat::webp;
  }
  if (has_bytes(file, 0, "GIF87a") || has_bytes(file, 0, "GIF89a")) {
    return ImageFormat::gif;
  }
  return std::nullopt;
}

std::string readable_formats() {
  std::string names;
  for (const Codec& codec : codecs) {
    if (codec.decode != nullptr) {
      names += (names.empty() ? "" : ", ") + std::string(codec.name);
    }
  }
  return names.empty() ? "none" : names;
}

void spend_pixels(const ImageFile& file, std::int64_t pixels) {
  constexpr std::int64_t pixels_of_unit = 4;
  spend(file.cost.budget, static_cast<std::uint64_t>(pixels / pixels_of_unit + 1));
}

Image new_image(std::int64_t width, std::int64_t height, const ImageFile& file, int decoder_bytes) {
  const ImageLimits& limits = file.limits;
  if (width < 1 || height < 1) {
    throw Error(fmt::format("it has {} x {} pixels", width, height));
  }
  if (width > limits.side || height > limits.side) {
    throw Error(fmt::format("it has {} x {} pixels, a side may have {}", width, height, limits.side));
  }
  if (width * height > limits.pixels) {
    throw Error(fmt::format("it has {} x {} pixels, {} in all are read", width, height, limits.pixels));
  }
  constexpr int channels = 3;
  if (file.cost.hold) {
    file.cost.hold(width * height * (channels + decoder_bytes));
  }
  return {static_cast<int>(width), static_cast<int>(height),
          std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * channels))};
}

Image decode_image(std::span<const std::uint8_t> file, const ImageLimits& limits, const DecodeCost& cost) {
  if (file.empty()) {
    throw Error("the image has no bytes");
  }
  if (file.size() > limits.bytes) {
    throw Error(fmt::format("the image has {} bytes, {} are read", file.size(), limits.bytes));
  }
  const auto format = format_of(file);
  if (!format) {
    throw Error(fmt::format("the image is of an unknown format; read are {}", readable_formats()));
  }
  const Codec& codec = codec_of(*format);
  if (codec.decode == nullptr) {
    throw Error(
        fmt::format("a {} image: this build was made without its library; read are {}", codec.name, readable_formats()));
  }
  return with_context(fmt::format("a {} image", codec.name), [&] { return codec.decode({file, limits, cost}); });
}

}  // namespace rocmforge
