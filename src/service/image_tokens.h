#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// What stands for an image among the ids of a prompt.
struct ImageTokens {
  std::int32_t token = -1;             ///< of each row that the encoder gives
  std::vector<std::int32_t> before{};  ///< where the chat template has not written them around the placeholder
  std::vector<std::int32_t> after{};
};

/// Puts the tokens of images in the place of their placeholders, which are at `places`, ascending. `counts`: rows of each
/// image. Returns where the rows of each image begin.
std::vector<std::int32_t> put_image_tokens(std::vector<std::int32_t>& ids, std::span<const std::int32_t> places,
                                           std::span<const std::int32_t> counts, const ImageTokens& tokens);

}  // namespace rocmforge
