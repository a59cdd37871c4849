#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chat/conversation.h"
#include "schedule/request.h"
#include "service/images.h"
#include "service/model.h"
#include "service/reading.h"

namespace rocmforge {

/// Who writes the control tokens around an image: the chat template, as MediaMarks::printed says of it, or nobody.
enum class MarksAround { by_template, none };

/// Reads and decodes the images of a prompt, and gives them to `request`, whose prompt has one id at each of `places`,
/// ascending: the tokens of the image take its place. Returns the images of a model without an encoder of its own, whose
/// prompt stays as it is. Throws ServiceError (invalid) naming the field of an image, and Error where the work is too much.
std::vector<PromptImage> give_images(Request& request, std::span<const ImagePart* const> parts,
                                     std::span<const std::int32_t> places, MarksAround marks, const ServedModel& model,
                                     ImageAllowance& allowance, Reading& reading);

}  // namespace rocmforge
