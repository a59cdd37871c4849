#pragma once

#include <cstdint>

#include "models/metadata_reader.h"
#include "models/model_config.h"

namespace rocmforge {

/// The window of each layer by attention.sliding_window (0: none) and attention.sliding_window_pattern: a period, of whose
/// layers the last has none, or a flag for each layer. Without a pattern all layers have it.
void read_windows(ModelConfig& config, MetadataReader& metadata);

/// For a file that names no pattern: every `period`-th layer has no window.
void window_but_every(ModelConfig& config, MetadataReader& metadata, std::int32_t period);

}  // namespace rocmforge
