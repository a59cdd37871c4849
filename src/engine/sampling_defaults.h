#pragma once

#include "schedule/sampling_params.h"
#include "weights/gguf_file.h"

namespace rocmforge {

/// The defaults of sampling: SamplingParams' own values, replaced by the file's recommendations (general.sampling.*). Throws
/// Error naming the key of an impossible value.
SamplingParams sampling_defaults(const GgufFile& file);

}  // namespace rocmforge
