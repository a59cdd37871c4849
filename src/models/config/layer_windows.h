#pragma once

#include <cstdint>

#include "models/config/metadata_reader.h"
#include "models/config/model_config.h"

namespace rocmforge {

/// The window of each layer by attention.sliding_window (0: none) and attention.sliding_window_pattern: a period, whose last
/// layer has no window, or a flag for each layer. Without a pattern all layers have the window.
void read_windows(ModelConfig& config, MetadataReader& metadata);

/// For a file without a pattern: every `period`-th layer has no window.
void window_but_every(ModelConfig& config, MetadataReader& metadata, std::int32_t period);

/// As window_but_every() for architectures where it is the first layer of each group that has no window, also if the file
/// has the period as its pattern.
void window_but_first_of_every(ModelConfig& config, MetadataReader& metadata, std::int32_t period);

}  // namespace rocmforge
