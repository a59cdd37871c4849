#pragma once

#include <cstdint>
#include <vector>

#include "chat/conversation.h"
#include "schedule/request.h"
#include "service/images.h"
#include "service/model.h"
#include "service/reading.h"

namespace rocmforge {

/// Who writes the control tokens around an image or a recording: the chat template, as MediaMarks::printed says of it, or
/// nobody.
enum class MarksAround { by_template, none };

/// The images or the recordings of a prompt, and the places of their placeholders among its ids, ascending.
template <class Kind>
struct PlacedParts {
  std::vector<const Kind*> parts{};
  std::vector<std::int32_t> places{};
};

struct GivenMedia {
  std::vector<PromptImage> left{};  ///< images of a model without an encoder of its own, whose prompt stays as it is
  double sound_seconds = 0.0;       ///< of all recordings
};

/// Reads and decodes the images and recordings of a prompt, and gives them to `request`: their tokens take the place of the
/// placeholders. The model takes what there is. Throws ServiceError (invalid) naming the field of an image or recording, and
/// Error where the work is too much.
GivenMedia give_media(Request& request, const PlacedParts<ImagePart>& images, const PlacedParts<SoundPart>& sounds,
                      MarksAround marks, const ServedModel& model, ImageAllowance& allowance, Reading& reading);

}  // namespace rocmforge
