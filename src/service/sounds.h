#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "service/images.h"
#include "service/reading.h"

namespace rocmforge {

/// Reads and decodes recordings, in their order, and takes them from the allowance: samples at encoder_rate. Counts their
/// work and memory. Throws ServiceError (invalid) with SoundPart::field for a recording that can't be read or may not be,
/// and Error where the work is too much.
std::vector<std::vector<float>> read_sounds(std::span<const SoundPart* const> parts, const ImageSources& sources,
                                            ImageAllowance& allowance, Reading& reading);

/// Whether a base64 text, with or without "data:...," before it, begins as the files of recordings do.
bool begins_as_sound(std::string_view base64);

}  // namespace rocmforge
