#include "service/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/base64.h"
#include "base/error.h"
#include "base/printable.h"
#include "images/decode.h"
#include "service/image_files.h"

namespace rocmforge {
namespace {

std::string bytes_of_data(std::string_view url) {
  constexpr std::string_view mark = ";base64";
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos || !url.substr(0, comma).ends_with(mark)) {
    throw Error("the data: URL is not in base64");
  }
  auto bytes = decode_base64(url.substr(comma + 1));
  if (!bytes) {
    throw Error("the base64 text is broken");
  }
  return *std::move(bytes);
}

}  // namespace

std::string bytes_of_url(std::string_view url, const ImageSources& sources, std::size_t most_bytes, Reading& reading) {
  if (url.starts_with("data:")) {
    reading.hold(static_cast<std::int64_t>(url.size()));
    spend(&reading.budget, url.size() / 8);
    return bytes_of_data(url);
  }
  std::string bytes;
  if (url.starts_with("file:")) {
    if (sources.folder.empty()) {
      throw Error("files are not read here: --image-folder allows those of one folder");
    }
    bytes = read_image_file(url, sources.folder, most_bytes);
  } else if (url.starts_with("http://") || url.starts_with("https://")) {
    if (!sources.fetch) {
      throw Error("addresses are not fetched here: --allow-image-urls allows it; or send the image itself in a data: URL");
    }
    bytes = sources.fetch(std::string(url), most_bytes);
  } else {
    throw Error(fmt::format("'{}' is no data: URL in base64, nor an address", printable(url, 64)));
  }
  reading.hold(static_cast<std::int64_t>(bytes.size()));
  return bytes;
}

namespace {

Image read_image(const ImagePart& part, const ImageSources& sources, std::int64_t most_pixels, Reading& reading) {
  ImageLimits limits;
  limits.pixels = std::min(limits.pixels, most_pixels);
  const std::string bytes = bytes_of_url(part.url, sources, limits.bytes, reading);
  const DecodeCost cost{.budget = &reading.budget, .hold = [&reading](std::int64_t more) { reading.hold(more); }};
  return decode_image({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, limits, cost);
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

}  // namespace

std::vector<Image> read_images(std::span<const ImagePart* const> parts, const ImageSources& sources,
                               ImageAllowance& allowance, Reading& reading) {
  if (parts.size() > allowance.images) {
    const std::size_t all = most_images - allowance.images + parts.size();
    throw ServiceError(ServiceError::Kind::invalid,
                       fmt::format("the request has {} images, at most {} are read", all, most_images),
                       parts[allowance.images]->field);
  }
  allowance.images -= parts.size();
  std::vector<Image> images;
  for (const ImagePart* part : parts) {
    const std::int64_t before = reading.held();
    images.push_back(with_image_field(part->field, [&] { return read_image(*part, sources, allowance.pixels, reading); }));
    allowance.pixels -= static_cast<std::int64_t>(images.back().rgb.size()) / 3;
    reading.keep(before + static_cast<std::int64_t>(images.back().rgb.size()));
    reading.release();
  }
  return images;
}

std::vector<std::int32_t> places_of_images(std::size_t count, const ImageInput& input, const Tokenizer& tokenizer,
                                           std::span<const ChatSegment> segments, std::span<const std::int32_t> ids,
                                           const std::string& field, const MediaWords& words) {
  const std::int32_t placeholder = tokenizer.find(input.placeholder);
  if (placeholder < 0) {
    throw ServiceError(
        ServiceError::Kind::unsupported,
        fmt::format("the model's vocabulary has no token '{}', which stands for {}", input.placeholder, words.one));
  }
  std::size_t written = 0;
  for (const ChatSegment& segment : segments) {
    written += segment.from_template ? count_of(segment.text, input.placeholder) : 0;
  }
  if (written != count) {
    throw ServiceError(ServiceError::Kind::invalid,
                       fmt::format("the chat template writes {} marks for {} {}", written, count, words.several), field);
  }
  std::vector<std::int32_t> places;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == placeholder) {
      places.push_back(static_cast<std::int32_t>(i));
    }
  }
  if (places.size() != count) {
    throw ServiceError(
        ServiceError::Kind::invalid,
        fmt::format("a text of the conversation holds '{}', which stands for {}", input.placeholder, words.one), field);
  }
  return places;
}

}  // namespace rocmforge
