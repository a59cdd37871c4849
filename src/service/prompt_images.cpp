#include "service/prompt_images.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/images.h"
#include "models/vision/vision_model.h"
#include "service/encoding.h"
#include "service/image_tokens.h"

namespace rocmforge {
namespace {

ImageTokens image_tokens(const ImageMarks& marks, MarksAround around, const Tokenizer& tokenizer) {
  const std::int32_t token = tokenizer.find(marks.token);
  if (token < 0) {
    throw ServiceError(ServiceError::Kind::unsupported,
                       fmt::format("the model's vocabulary has no token '{}', which stands for an image", marks.token));
  }
  const bool written = around == MarksAround::by_template && marks.printed;
  const auto encode = [&](const std::string& text) {
    return written ? Ids() : tokenizer.encode(text, {.add_special = false, .parse_special = true});
  };
  return {.token = token, .before = encode(marks.before), .after = encode(marks.after)};
}

/// As the encoder takes an image. Counts what the request holds of it until its end.
std::shared_ptr<const PreparedImage> prepare(const Image& image, const std::string& field, const VisionModel& vision,
                                             Reading& reading) {
  return with_image_field(field, [&] {
    auto prepared = std::make_shared<const PreparedImage>(vision.prepare(image));
    reading.hold_to_end(static_cast<std::int64_t>(prepared->pixels.size() * sizeof(float)));
    return prepared;
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
  std::vector<std::shared_ptr<const PreparedImage>> prepared;
  std::vector<std::int32_t> counts;
  for (std::size_t i = 0; i < images.size(); ++i) {
    prepared.push_back(prepare(images[i], parts[i]->field, *model.vision, reading));
    counts.push_back(prepared.back()->tokens);
    images[i] = {};
  }
  const std::vector<std::int32_t> begins =
      put_image_tokens(request.prompt, places, counts, image_tokens(model.vision->marks(), marks, model.text()));
  for (std::size_t i = 0; i < begins.size(); ++i) {
    add_image(request, begins[i], prepared[i]);
  }
  return left;
}

}  // namespace rocmforge
