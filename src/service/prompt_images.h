#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chat/conversation.h"
#include "schedule/request.h"
#include "service/image_tokens.h"
#include "service/images.h"
#include "service/model.h"
#include "service/reading.h"

namespace rocmforge {

/// Who writes the control tokens around an image or a recording: the chat template, as MediaMarks::printed says of it, or
/// nobody.
enum class MarksAround { by_template, none };

/// An image or a recording of a prompt, as the encoder takes it.
struct PlacedInput {
  std::int32_t place = 0;            ///< of its placeholder among the prompt's ids
  ImageTokens tokens;                ///< that take the placeholder's place
  std::vector<EncoderInput> inputs;  ///< of the rows of `tokens`
  double seconds = 0.0;              ///< of a recording
};

/// Reads and decodes the images of a prompt, whose placeholders are at `places`, ascending; only for a model with an image
/// encoder. Throws ServiceError (invalid) naming the field of an image, and Error where the work is too much.
std::vector<PlacedInput> prepare_images(std::span<const ImagePart* const> parts, std::span<const std::int32_t> places,
                                        MarksAround marks, const ServedModel& model, ImageAllowance& allowance,
                                        Reading& reading);
/// The same for recordings and a model with an audio encoder.
std::vector<PlacedInput> prepare_sounds(std::span<const SoundPart* const> parts, std::span<const std::int32_t> places,
                                        MarksAround marks, const ServedModel& model, ImageAllowance& allowance,
                                        Reading& reading);

/// Gives them to a request, in whose prompt their tokens take the place of the placeholders.
void put_inputs(Request& request, std::vector<PlacedInput> inputs);

/// Reads and decodes the images of a prompt for whoever encodes them (ServedModel::images without an encoder).
std::vector<PromptImage> read_for_others(std::span<const ImagePart* const> parts, std::span<const std::int32_t> places,
                                         const ServedModel& model, ImageAllowance& allowance, Reading& reading);

}  // namespace rocmforge
