#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// What stands for an image among the ids of a prompt.
struct ImageTokens {
  /// The rows that the encoder gives for the image, or for a tile of it.
  struct Rows {
    std::vector<std::int32_t> before{};  ///< ids before theirs
    std::int32_t count = 0;
  };
  std::int32_t token = -1;  ///< of each row
  std::vector<Rows> rows{};
  std::vector<std::int32_t> after{};  ///< ids behind the last ones
};

/// Puts the tokens of images in the place of their placeholders, which are at `places`, ascending. Returns where the rows
/// begin, those of all images one after another.
std::vector<std::int32_t> put_image_tokens(std::vector<std::int32_t>& ids, std::span<const std::int32_t> places,
                                           std::span<const ImageTokens> images);

}  // namespace rocmforge
