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
#include "service/image_tokens.h"
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

/// An image or a recording of a prompt, as the encoder takes it.
struct PlacedInput {
  std::int32_t place = 0;            ///< of its placeholder among the prompt's ids
  ImageTokens tokens;                ///< that take the placeholder's place
  std::vector<EncoderInput> inputs;  ///< of the rows of `tokens`
};

template <class Prepared>
PlacedInput placed(std::int32_t place, ImageTokens tokens, std::vector<Prepared> prepared) {
  PlacedInput input{.place = place, .tokens = std::move(tokens), .inputs = {}};
  for (Prepared& each : prepared) {
    input.inputs.emplace_back(std::make_shared<const Prepared>(std::move(each)));
  }
  return input;
}

/// What the request holds until its end is counted.
void hold_floats(std::size_t count, Reading& reading) {
  reading.hold_to_end(static_cast<std::int64_t>(count * sizeof(float)));
}

/// What a prompt's images and recordings become, of one request.
class MediaReader {
 public:
  MediaReader(MarksAround marks, const ServedModel& model, ImageAllowance& allowance, Reading& reading)
      : marks_(marks), model_(&model), allowance_(&allowance), reading_(&reading) {}

  void read(const PlacedParts<ImagePart>& of) {
    std::vector<Image> images = read_images(of.parts, model_->image_sources, *allowance_, *reading_);
    if (model_->vision == nullptr) {
      for (std::size_t i = 0; i < images.size(); ++i) {
        given_.left.push_back({of.places[i], std::move(images[i])});
      }
      return;
    }
    const TokensOfMedia tokens_of(model_->vision->marks(), marks_, model_->text(), image_words);
    for (std::size_t i = 0; i < images.size(); ++i) {
      std::vector<PreparedImage> tiles =
          with_image_field(of.parts[i]->field, [&] { return model_->vision->prepare(images[i]); });
      for (const PreparedImage& tile : tiles) {
        hold_floats(tile.pixels.size(), *reading_);
      }
      ImageTokens tokens = tokens_of.of(tiles);
      inputs_.push_back(placed(of.places[i], std::move(tokens), std::move(tiles)));
      images[i] = {};
    }
  }

  void read(const PlacedParts<SoundPart>& of) {
    std::vector<std::vector<float>> sounds = read_sounds(of.parts, model_->image_sources, *allowance_, *reading_);
    const TokensOfMedia tokens_of(model_->audio->config().marks, marks_, model_->text(), sound_words);
    for (std::size_t i = 0; i < sounds.size(); ++i) {
      constexpr std::uint64_t units_per_sample = 8;  // of the spectrogram
      spend(&reading_->budget, sounds[i].size() * units_per_sample);
      std::vector<PreparedSound> pieces =
          with_image_field(of.parts[i]->field, [&] { return model_->audio->prepare(sounds[i]); });
      for (const PreparedSound& piece : pieces) {
        hold_floats(piece.frames.size(), *reading_);
      }
      ImageTokens tokens = tokens_of.of(pieces);
      inputs_.push_back(placed(of.places[i], std::move(tokens), std::move(pieces)));
      given_.sound_seconds += static_cast<double>(sounds[i].size()) / encoder_rate;
      sounds[i] = {};
    }
  }

  GivenMedia give(Request& request) {
    if (inputs_.empty()) {
      return std::move(given_);
    }
    std::ranges::sort(inputs_, {}, &PlacedInput::place);
    std::vector<std::int32_t> places;
    std::vector<ImageTokens> tokens;
    for (PlacedInput& input : inputs_) {
      places.push_back(input.place);
      tokens.push_back(std::move(input.tokens));
    }
    const std::vector<std::int32_t> begins = put_image_tokens(request.prompt, places, tokens);
    auto begin = begins.begin();
    for (PlacedInput& input : inputs_) {
      for (EncoderInput& each : input.inputs) {
        add_input(request, *begin++, std::move(each));
      }
    }
    return std::move(given_);
  }

 private:
  MarksAround marks_;
  const ServedModel* model_;
  ImageAllowance* allowance_;
  Reading* reading_;
  std::vector<PlacedInput> inputs_;
  GivenMedia given_;
};

}  // namespace

GivenMedia give_media(Request& request, const PlacedParts<ImagePart>& images, const PlacedParts<SoundPart>& sounds,
                      MarksAround marks, const ServedModel& model, ImageAllowance& allowance, Reading& reading) {
  MediaReader reader(marks, model, allowance, reading);
  if (!images.parts.empty()) {
    reader.read(images);
  }
  if (!sounds.parts.empty()) {
    reader.read(sounds);
  }
  return reader.give(request);
}

}  // namespace rocmforge
