#pragma once

#include <cstddef>
#include <optional>

#include "models/plan/buffer_plan.h"
#include "models/plan/memory_plan.h"
#include "models/plan/plan_report.h"
#include "models/plan/weight_table.h"

namespace rocmforge {

/// What a model needs in the memory of one side.
struct SidePlan {
  WeightTable weights;
  BufferPlan buffers;
};

/// What planning a model leaves: its weights and the memory of a step on each side, the memory of a sequence, and the
/// report. The kernels that were chosen are in the parts of the model.
struct ModelPlan {
  WeightTable weights;  ///< of the device, like `buffers`
  BufferPlan buffers;
  MemoryPlan memory{};
  PlanReport report{};
  std::int32_t position_axes = 1;      ///< the most positions of a token in a step
  std::optional<SidePlan> host{};      ///< where the model is split
  bool states_elsewhere = false;       ///< steps have slots of state for layers of another device
  std::int64_t halves_from = 0;        ///< the rows from which on prompts' steps are computed in halves; 0: none is
  std::optional<WeightTable> draft{};  ///< of another file, on the device: DraftBlocks'

  [[nodiscard]] WeightTable& weights_of(Side side) { return side == Side::device ? weights : host.value().weights; }
  /// Bytes of copies of weights on the device: see WeightTable.
  [[nodiscard]] std::size_t packed_bytes(bool on_gpu) const {
    return weights.packed_bytes(on_gpu) + (draft ? draft->packed_bytes(on_gpu) : 0);
  }
  [[nodiscard]] BufferPlan& buffers_of(Side side) { return side == Side::device ? buffers : host.value().buffers; }
};

}  // namespace rocmforge
