#include "models/step/step_halves.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "models/step/pass.h"

namespace rocmforge {
namespace {

/// Products of many rows take them in tiles of up to so many.
constexpr std::int32_t tile_rows = 256;

/// Steps are cut at multiples of this: halves of few rows, in tests, have rows of their own in whole cache lines, too.
std::int32_t cut_step(std::int32_t rows) {
  return std::min(tile_rows, static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(rows / 2))));
}

bool leaves_several(const BatchPlan& batch, std::int32_t row) {
  const auto behind = std::ranges::upper_bound(batch.query_offsets, row);
  const std::int32_t before_cut = row - *(behind - 1);
  const std::int32_t behind_cut = *behind - row;
  return before_cut == 0 || (before_cut > 1 && behind_cut > 1);
}

/// One half on its way through the layers.
class Half {
 public:
  Half(std::span<const std::unique_ptr<Block>> blocks, const Step& step, SequenceMemory& memory)
      : blocks_(blocks), step_(step), memory_(&memory) {
    enter();
  }

  /// Runs operations behind the last sum, until one has begun the next. Returns whether one did; if not, that was all.
  bool run_to_sum() {
    if (summing_) {
      step_.communicator->finish_sum(*step_.half, *step_.context);
      summing_ = false;
    }
    while (!blocks_.empty()) {
      const Operations& operations = finishing_ ? blocks_.front()->finish() : blocks_.front()->mix();
      while (next_ < operations.size() && !summing_) {
        run_one(operations[next_], step_);
        summing_ = operations[next_].sums;
        ++next_;
      }
      if (summing_) {
        return true;
      }
      go_on();
    }
    return false;
  }

 private:
  void go_on() {
    next_ = 0;
    if (finishing_) {
      blocks_ = blocks_.subspan(1);
      enter();
    }
    finishing_ = !finishing_;
  }
  void enter() {
    if (!blocks_.empty() && blocks_.front()->has_pages()) {
      find_pages(blocks_.front()->kv_place(), *step_.arrays, *memory_, step_);
    }
  }

  std::span<const std::unique_ptr<Block>> blocks_;  ///< from the one that runs on
  Step step_;
  SequenceMemory* memory_;
  bool finishing_ = false;  ///< the block's mix() is done
  std::size_t next_ = 0;    ///< operation
  bool summing_ = false;
};

}  // namespace

std::int32_t cut_row(const BatchPlan& batch) {
  const std::int32_t rows = batch.num_tokens();
  const bool padded = std::ranges::find(batch.kv_lengths, 0) != batch.kv_lengths.end();
  const bool whole = padded || !batch.states.empty() || !batch.adapters.empty() || !batch.visible_end.empty() ||
                     !batch.overwritten_rows.empty() || batch.most_rows > 0 || rows == batch.num_sequences() || rows < 4;
  if (whole) {
    return 0;
  }
  const std::int32_t step = cut_step(rows);
  const std::int32_t middle = (rows / 2 + step / 2) / step * step;
  for (const std::int32_t row : {middle, middle - step, middle + step}) {
    if (row > 0 && row < rows && leaves_several(batch, row)) {
      return row;
    }
  }
  return 0;
}

std::int64_t most_half_rows(std::int64_t rows) { return std::min(rows, rows / 2 + 2 * tile_rows); }

void take_rows(const BatchPlan& batch, std::int32_t first, std::int32_t end, BatchPlan& part) {
  part.clear();
  const std::span tokens(batch.tokens);
  const std::span positions(batch.positions);
  const auto table = static_cast<std::size_t>(batch.max_blocks);
  const auto sequences = static_cast<std::size_t>(batch.num_sequences());
  const auto blocks_of = [&](std::int32_t group, std::size_t sequence) {
    const auto at = (static_cast<std::size_t>(group) * sequences + sequence) * table;
    const auto blocks = std::span(batch.block_tables).subspan(at, table);
    return blocks.first(static_cast<std::size_t>(std::ranges::find(blocks, -1) - blocks.begin()));
  };
  for (std::size_t s = 0; s < sequences; ++s) {
    const std::int32_t from = std::max(first, batch.query_offsets[s]);
    const std::int32_t to = std::min(end, batch.query_offsets[s + 1]);
    if (from >= to) {
      continue;
    }
    const auto at = static_cast<std::size_t>(from);
    const auto count = static_cast<std::size_t>(to - from);
    const auto axes = static_cast<std::size_t>(batch.position_axes);
    const std::int32_t first_cell = batch.kv_lengths[s] - batch.query_offsets[s + 1] + from;
    part.add_sequence(tokens.subspan(at, count), first_cell, blocks_of(0, s), false);
    part.set_positions(positions.subspan(at * axes, count * axes), batch.position_axes);
    for (std::int32_t group = 1; group < batch.num_groups(); ++group) {
      part.add_blocks(group, blocks_of(group, s));
    }
  }
  part.finish();
}

void run_halves(std::span<const std::unique_ptr<Block>> blocks, const std::array<Step, 2>& halves, SequenceMemory& memory) {
  Half first(blocks, halves[0], memory);
  Half second(blocks, halves[1], memory);
  while (first.run_to_sum()) {
    check(second.run_to_sum(), "both halves have the same sums");
  }
  check(!second.run_to_sum(), "both halves have the same sums");
}

}  // namespace rocmforge
