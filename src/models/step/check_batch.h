#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/sequence_memory.h"
#include "models/model.h"
#include "ops/batch_plan.h"

namespace rocmforge {

/// What the steps of a loaded model may be.
struct StepBounds {
  const ModelConfig& config;
  const ModelOptions& options;
  const KvGroups& kv_groups;     ///< of the plan
  std::size_t state_bytes;       ///< of a slot on the device
  std::size_t host_state_bytes;  ///< of a slot on the host beside it
  std::int32_t drawn_rows;       ///< rows whose tokens the step before has drawn
};

/// check()s that the model computes `batch` with the pages and slots of `memory`: numbers of rows, the layout of the
/// memory, what the model was loaded for, and each token, position and length. Work of one pass over the batch.
void check_batch(const BatchPlan& batch, const SequenceMemory& memory, const StepBounds& bounds);

}  // namespace rocmforge
