#pragma once

#include "models/plan/buffer_plan.h"
#include "models/plan/memory_plan.h"
#include "models/plan/plan_report.h"
#include "models/plan/weight_table.h"

namespace rocmforge {

/// What planning a model leaves: its weights, the memory of a step and of a sequence, and the report. The kernels that were
/// chosen are in the parts of the model.
struct ModelPlan {
  WeightTable weights;
  BufferPlan buffers;
  MemoryPlan memory{};
  PlanReport report{};
  std::int32_t position_axes = 1;  ///< the most positions of a token in a step
};

}  // namespace rocmforge
