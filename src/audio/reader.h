#pragma once

#include <cstdint>
#include <span>

#include "audio/decode.h"
#include "audio/sound.h"

namespace rocmforge {

/// Whether this build has a library that reads files.
bool reads_sounds();

/// The mean of the channels of a file of one of the formats, at the file's rate. Throws Error.
Sound read_sound(std::span<const std::uint8_t> file, const SoundLimits& limits, const SoundCost& cost);

}  // namespace rocmforge
