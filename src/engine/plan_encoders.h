#pragma once

#include "engine/plan_model.h"

namespace rocmforge {

/// Opens the file of the encoders (EngineOptions::mmproj), and makes room in a step for what they encode whole. Throws Error
/// where none of them can be computed; of two, one that can't be is passed over with a warning.
void open_encoders(PlannedModel& planned, const ModelConfig& text, EngineOptions& options);

/// Plans the encoders of the opened file, if there is one, on the model's device.
void plan_encoders(PlannedModel& planned, const ModelConfig& text, const EngineOptions& options, bool small_weights);

/// Adds their memory to the model's.
void count_encoders(PlannedModel& planned);

}  // namespace rocmforge
