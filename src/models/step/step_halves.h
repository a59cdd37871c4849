#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "memory/sequence_memory.h"
#include "models/parts/block.h"
#include "models/step/step_inputs.h"
#include "ops/batch_plan.h"

namespace rocmforge {

/// A prompt's step of ranks in two halves of its rows: while the sums of one cross the links, the layers compute the other.
/// The second half's rows may belong to the same sequence, of which the first half's K and V are in the pages by then: in
/// each layer its attention comes behind their append.
struct StepHalves {
  std::int32_t row = 0;  ///< the first of the second half
  std::array<BatchPlan, 2> plans{};
  std::array<StepArrays, 2> arrays{};
};

/// The row at which a step is cut, near its middle; 0 where it is not. A step is computed whole if it has recurrent states,
/// whose next one a step writes once, adapters, rows that see rows behind them or replace embeddings, single rows alone, or
/// no place that leaves each sequence several rows on both sides: a single one goes to another kernel.
std::int32_t cut_row(const BatchPlan& batch);
/// The most rows of a half of steps of up to `rows`.
std::int64_t most_half_rows(std::int64_t rows);

/// Rows [first, end) of `batch` as a batch for the layers: without what is wanted behind them.
void take_rows(const BatchPlan& batch, std::int32_t first, std::int32_t end, BatchPlan& part);

/// Computes `blocks` for both halves, whose Step::half tells them apart: one up to its next sum over the ranks, which is
/// begun, then the other, in turn.
void run_halves(std::span<const std::unique_ptr<Block>> blocks, const std::array<Step, 2>& halves, SequenceMemory& memory);

}  // namespace rocmforge
