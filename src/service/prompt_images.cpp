#include "service/prompt_images.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/images.h"
#include "models/vision/vision_model.h"
#include "service/encoding.h"
#include "service/image_tokens.h"

namespace rocmforge {
namespace {

using Tiles = std::vector<std::shared_ptr<const PreparedImage>>;

/// Makes of images the tokens that stand for them.
class TokensOfImages {
 public:
  TokensOfImages(const MediaMarks& marks, MarksAround around, const Tokenizer& tokenizer)
      : tokenizer_(&tokenizer), token_(tokenizer.find(marks.token)) {
    if (token_ < 0) {
      throw ServiceError(ServiceError::Kind::unsupported,
                         fmt::format("the model's vocabulary has no token '{}', which stands for an image", marks.token));
    }
    if (around != MarksAround::by_template || !marks.printed) {
      before_ = marks.before;
      after_ = marks.after;
    }
  }
  [[nodiscard]] ImageTokens of(const Tiles& tiles) const {
    ImageTokens tokens{.token = token_};
    for (const auto& tile : tiles) {
      const std::string before = (tokens.rows.empty() ? before_ : "") + tile->before;
      tokens.rows.push_back({.before = encode(before), .count = tile->tokens});
    }
    tokens.after = encode(tiles.back()->after + after_);
    return tokens;
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> encode(const std::string& text) const {
    return tokenizer_->encode(text, {.add_special = false, .parse_special = true});
  }

  const Tokenizer* tokenizer_;
  std::int32_t token_;
  std::string before_;
  std::string after_;
};

/// As the encoder takes an image. Counts what the request holds of it until its end.
Tiles prepare(const Image& image, const std::string& field, const VisionModel& vision, Reading& reading) {
  return with_image_field(field, [&] {
    Tiles tiles;
    for (PreparedImage& tile : vision.prepare(image)) {
      reading.hold_to_end(static_cast<std::int64_t>(tile.pixels.size() * sizeof(float)));
      tiles.push_back(std::make_shared<const PreparedImage>(std::move(tile)));
    }
    return tiles;
  });
}

}  // namespace

std::vector<PromptImage> give_images(Request& request, std::span<const ImagePart* const> parts,
                                     std::span<const std::int32_t> places, MarksAround marks, const ServedModel& model,
                                     ImageAllowance& allowance, Reading& reading) {
  std::vector<Image> images = read_images(parts, model.image_sources, allowance, reading);
  std::vector<PromptImage> left;
  if (model.vision == nullptr) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      left.push_back({places[i], std::move(images[i])});
    }
    return left;
  }
  const TokensOfImages tokens_of(model.vision->marks(), marks, model.text());
  Tiles all;
  std::vector<ImageTokens> tokens;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Tiles tiles = prepare(images[i], parts[i]->field, *model.vision, reading);
    tokens.push_back(tokens_of.of(tiles));
    all.insert(all.end(), tiles.begin(), tiles.end());
    images[i] = {};
  }
  const std::vector<std::int32_t> begins = put_image_tokens(request.prompt, places, tokens);
  for (std::size_t i = 0; i < begins.size(); ++i) {
    add_image(request, begins[i], all[i]);
  }
  return left;
}

}  // namespace rocmforge
