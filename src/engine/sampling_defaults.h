#pragma once

#include "schedule/sampling_params.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// How tokens are drawn where nobody says otherwise: SamplingParams' own values, and over them what the file's authors
/// recommend (general.sampling.*). Throws Error naming the key of a value that can't be; warns of a recommendation that this
/// engine does not follow.
SamplingParams sampling_defaults(const GgufFile& file);

}  // namespace rocmforge
