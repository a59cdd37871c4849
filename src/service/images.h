#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/work_budget.h"
#include "chat/conversation.h"
#include "images/image.h"
#include "service/reading.h"
#include "service/service_error.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// Where images may come from, beside data: URLs in the request itself.
struct ImageSources {
  std::string folder{};  ///< file:// URLs below it are read; "": none
  /// The bytes at an http or https URL. Throws Error, also for more than so many. Empty: none are fetched.
  std::function<std::string(const std::string& url, std::size_t most_bytes)> fetch{};
};

/// How a model with an encoder gets images, or recordings.
struct ImageInput {
  std::string placeholder;  ///< the token that the chat template writes where one stands
  std::string text{};       ///< written for a template that takes texts alone; "": it gets none
};

/// An image of a prompt.
struct PromptImage {
  std::int32_t position = 0;  ///< among the prompt's ids: of the placeholder
  Image image{};
};

constexpr std::size_t most_images = 64;                            ///< of a request
constexpr std::int64_t most_image_pixels = std::int64_t{1} << 28;  ///< of all images of a request together

constexpr std::size_t most_sounds = 16;   ///< recordings of a request
constexpr int most_sound_seconds = 1200;  ///< of all recordings of a request together

/// What images and recordings a request may still have.
struct ImageAllowance {
  std::size_t images = most_images;
  std::int64_t pixels = most_image_pixels;
  std::size_t sounds = most_sounds;
  int sound_seconds = most_sound_seconds;
};

/// The bytes that a URL names, which are counted. Throws Error.
std::string bytes_of_url(std::string_view url, const ImageSources& sources, std::size_t most_bytes, Reading& reading);

/// Reads and decodes images, in their order, and takes them from the allowance. Counts their work and memory. Throws
/// ServiceError (invalid) with ImagePart::field for an image that can't be read or may not be, and Error where the work is
/// too much.
std::vector<Image> read_images(std::span<const ImagePart* const> parts, const ImageSources& sources,
                               ImageAllowance& allowance, Reading& reading);

/// Runs `body`. Its Error becomes a ServiceError (invalid) that names the image's field, but for a budget's end.
template <class Body>
auto with_image_field(const std::string& field, const Body& body) {
  try {
    return body();
  } catch (const Interrupted&) {
    throw;
  } catch (const Postponed&) {
    throw;
  } catch (const Error& error) {
    throw ServiceError(ServiceError::Kind::invalid, field.empty() ? error.what() : field + ": " + error.what(), field);
  }
}

/// How messages name what a prompt holds beside text.
struct MediaWords {
  std::string_view one, several;
};
constexpr MediaWords image_words{"an image", "images"};
constexpr MediaWords sound_words{"a recording", "recordings"};

/// Where the images, or the recordings, of a conversation stand among the ids of its rendered prompt: one placeholder for
/// each, in their order, written by the template. Throws ServiceError (invalid) with `field` where the template has not
/// written as many, or a text of the conversation became one.
std::vector<std::int32_t> places_of_images(std::size_t count, const ImageInput& input, const Tokenizer& tokenizer,
                                           std::span<const ChatSegment> segments, std::span<const std::int32_t> ids,
                                           const std::string& field, const MediaWords& words = image_words);

}  // namespace rocmforge
