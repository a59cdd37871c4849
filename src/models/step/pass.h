#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "models/parts/block.h"
#include "models/parts/operation.h"
#include "models/parts/output_head.h"
#include "models/step/crossing.h"
#include "models/step/rank.h"

namespace rocmforge {

/// The operations of a step: the layers of the model, or one of its MTP blocks.
struct Pass {
  const Operations* begin = nullptr;  ///< to Buffers::hidden; null where that has the rows already
  std::span<const std::unique_ptr<Block>> blocks{};
  std::size_t kept_blocks = 0;         ///< blocks to compute in a step that wants only K, V and states
  const Operations* states = nullptr;  ///< of the wanted hidden states, to Buffers::projected
  const OutputHead* output = nullptr;  ///< null for a model without logits
  const Operations* draw = nullptr;    ///< from Buffers::logits
  bool gathers = true;                 ///< the last block's rows may be gathered before its end
  Side begin_side = Side::device;
  Side output_side = Side::device;     ///< also of the states and the draw
  std::int64_t halves_from = 0;        ///< ModelPlan::halves_from
  bool hands_on = false;               ///< the blocks are not the last ones: all rows of Buffers::hidden go on to others
  const Crossing* crossing = nullptr;  ///< where the model is split
};

/// A step as each side sees it. The device's refers to the host's.
struct SideSteps {
  Step device;
  std::optional<Step> host{};
  std::optional<std::array<Step, 2>>
      halves{};  ///< the device's in two parts, which are computed in turn up to the last block

  [[nodiscard]] const Step& at(Side side) const { return side == Side::device ? device : host.value(); }
};

/// Called with the rows of Buffers::logits that are wanted as they are, before the draw changes them.
using KeepRows = std::function<void(std::span<const std::int32_t>)>;

/// Passes a step's operations to `run` in their order, in groups with the Step that they run on.
void run_pass(const Pass& pass, const SideSteps& steps, SequenceMemory& memory, const KeepRows& keep_raw,
              const RunOperations& run);

/// Sets the K and V at `place` in `step`, with their block tables among those of `arrays`.
void find_pages(const KvPlace& place, const StepArrays& arrays, SequenceMemory& memory, Step& step);

/// A step that `rank` computes from `arrays`, before its first operation.
Step begin_step(const StepArrays& arrays, const StateView& states, Rank& rank);

}  // namespace rocmforge
