#include "service/prompt_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "audio/sound.h"
#include "engine/images.h"
#include "models/audio/audio_model.h"
#include "models/vision/vision_model.h"
#include "service/encoding.h"
#include "service/sounds.h"

namespace rocmforge {
namespace {

/// Makes of images or recordings the tokens that stand for them.
class TokensOfMedia {
 public:
  TokensOfMedia(const MediaMarks& marks, MarksAround around, const Tokenizer& tokenizer, const MediaWords& words)
      : tokenizer_(&tokenizer), token_(tokenizer.find(marks.token)) {
    if (token_ < 0) {
      throw ServiceError(
          ServiceError::Kind::unsupported,
          fmt::format("the model's vocabulary has no token '{}', which stands for {}", marks.token, words.one));
    }
    if (around != MarksAround::by_template || !marks.printed) {
      before_ = marks.before;
      after_ = marks.after;
    }
  }
  /// Of an image's tiles, in their order.
  [[nodiscard]] ImageTokens of(std::span<const PreparedImage> tiles) const {
    ImageTokens tokens{.token = token_};
    for (const PreparedImage& tile : tiles) {
      const std::string before = (tokens.rows.empty() ? before_ : "") + tile.before;
      tokens.rows.push_back({.before = encode(before), .count = tile.tokens});
    }
    tokens.after = encode(tiles.back().after + after_);
    return tokens;
  }
  /// Of a recording's pieces, likewise.
  [[nodiscard]] ImageTokens of(std::span<const PreparedSound> pieces) const {
    ImageTokens tokens{.token = token_};
    for (const PreparedSound& piece : pieces) {
      tokens.rows.push_back(
          {.before = tokens.rows.empty() ? encode(before_) : std::vector<std::int32_t>(), .count = piece.tokens});
    }
    tokens.after = encode(after_);
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

/// What the request holds of them until its end is counted.
template <class Prepared>
PlacedInput placed(std::int32_t place, ImageTokens tokens, std::vector<Prepared> prepared) {
  PlacedInput input{.place = place, .tokens = std::move(tokens), .inputs = {}};
  for (Prepared& each : prepared) {
    input.inputs.emplace_back(std::make_shared<const Prepared>(std::move(each)));
  }
  return input;
}

void hold_floats(std::size_t count, Reading& reading) {
  reading.hold_to_end(static_cast<std::int64_t>(count * sizeof(float)));
}

}  // namespace

std::vector<PlacedInput> prepare_images(std::span<const ImagePart* const> parts, std::span<const std::int32_t> places,
                                        MarksAround marks, const ServedModel& model, ImageAllowance& allowance,
                                        Reading& reading) {
  std::vector<Image> images = read_images(parts, model.image_sources, allowance, reading);
  const TokensOfMedia tokens_of(model.vision->marks(), marks, model.text(), image_words);
  std::vector<PlacedInput> all;
  for (std::size_t i = 0; i < images.size(); ++i) {
    std::vector<PreparedImage> tiles = with_image_field(parts[i]->field, [&] { return model.vision->prepare(images[i]); });
    for (const PreparedImage& tile : tiles) {
      hold_floats(tile.pixels.size(), reading);
    }
    ImageTokens tokens = tokens_of.of(tiles);
    all.push_back(placed(places[i], std::move(tokens), std::move(tiles)));
    images[i] = {};
  }
  return all;
}

std::vector<PlacedInput> prepare_sounds(std::span<const SoundPart* const> parts, std::span<const std::int32_t> places,
                                        MarksAround marks, const ServedModel& model, ImageAllowance& allowance,
                                        Reading& reading) {
  std::vector<std::vector<float>> sounds = read_sounds(parts, model.image_sources, allowance, reading);
  const TokensOfMedia tokens_of(model.audio->config().marks, marks, model.text(), sound_words);
  std::vector<PlacedInput> all;
  for (std::size_t i = 0; i < sounds.size(); ++i) {
    constexpr std::uint64_t units_per_sample = 8;  // of the spectrogram
    spend(&reading.budget, sounds[i].size() * units_per_sample);
    std::vector<PreparedSound> pieces = with_image_field(parts[i]->field, [&] { return model.audio->prepare(sounds[i]); });
    for (const PreparedSound& piece : pieces) {
      hold_floats(piece.frames.size(), reading);
    }
    ImageTokens tokens = tokens_of.of(pieces);
    all.push_back(placed(places[i], std::move(tokens), std::move(pieces)));
    all.back().seconds = static_cast<double>(sounds[i].size()) / encoder_rate;
    sounds[i] = {};
  }
  return all;
}

void put_inputs(Request& request, std::vector<PlacedInput> inputs) {
  std::ranges::sort(inputs, {}, &PlacedInput::place);
  std::vector<std::int32_t> places;
  std::vector<ImageTokens> tokens;
  for (PlacedInput& input : inputs) {
    places.push_back(input.place);
    tokens.push_back(std::move(input.tokens));
  }
  const std::vector<std::int32_t> begins = put_image_tokens(request.prompt, places, tokens);
  auto begin = begins.begin();
  for (PlacedInput& input : inputs) {
    for (EncoderInput& each : input.inputs) {
      add_input(request, *begin++, std::move(each));
    }
  }
}

std::vector<PromptImage> read_for_others(std::span<const ImagePart* const> parts, std::span<const std::int32_t> places,
                                         const ServedModel& model, ImageAllowance& allowance, Reading& reading) {
  std::vector<Image> images = read_images(parts, model.image_sources, allowance, reading);
  std::vector<PromptImage> left;
  for (std::size_t i = 0; i < images.size(); ++i) {
    left.push_back({places[i], std::move(images[i])});
  }
  return left;
}

}  // namespace rocmforge
