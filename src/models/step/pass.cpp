#include "models/step/pass.h"

#include <utility>

#include "models/step/step_halves.h"

namespace rocmforge {
namespace {

/// Gathers the rows of `step` whose logits are wanted into a Step of their own; with `mixed` also the mixer's output.
Step wanted_rows(const Step& step, const OutputHead& output, bool mixed, const RunOperations& run) {
  Step wanted = step;
  wanted.tokens = step.arrays->num_logit_rows;
  wanted.adapter_runs = step.arrays->adapters.logits();
  std::swap(wanted.buffers.hidden, wanted.buffers.normed);
  if (wanted.tokens > 0) {
    run(output.pick_hidden(), wanted);
  }
  if (mixed) {  // at most half of the rows, so each buffer has room for the other's content
    std::swap(wanted.buffers.gathered, wanted.buffers.projected);
    if (wanted.tokens > 0) {
      run(output.pick_mixed(), wanted);
    }
  }
  return wanted;
}

/// The residual stream on one side, which crosses to the other one where the next operations are there.
class Walk {
 public:
  Walk(const Pass& pass, const SideSteps& steps, const RunOperations& run)
      : pass_(&pass), steps_(&steps), run_(&run), side_(pass.begin_side) {}

  [[nodiscard]] Side side() const { return side_; }
  /// The step on `side`, to which the residual stream crosses if it is on the other one.
  const Step& go_to(Side side) {
    if (side != side_) {
      (*run_)(pass_->crossing->to(side), steps_->device);
      if (!per_layer_sent_) {  // the other side keeps its own
        (*run_)(pass_->crossing->per_layer_to(side), steps_->device);
        per_layer_sent_ = true;
      }
      side_ = side;
    }
    return steps_->at(side);
  }

 private:
  const Pass* pass_;
  const SideSteps* steps_;
  const RunOperations* run_;
  Side side_;
  bool per_layer_sent_ = false;
};

/// The blocks of the pass. Returns the Step of the rows behind them.
Step run_blocks(const Pass& pass, const SideSteps& steps, Walk& walk, SequenceMemory& memory, const RunOperations& run) {
  Step step = walk.go_to(walk.side());
  const StepArrays& arrays = *step.arrays;
  const bool wanted = pass.hands_on || arrays.num_logit_rows > 0 || arrays.num_hidden_rows > 0;
  const bool few = 2 * std::int64_t{arrays.num_logit_rows} <= step.tokens;
  const std::size_t blocks = wanted ? pass.blocks.size() : pass.kept_blocks;
  std::size_t index = 0;
  if (steps.halves) {
    index = blocks - 1;  // behind whose mixer rows may be gathered
    run_halves(pass.blocks.first(index), *steps.halves, memory);
  }
  for (; index < blocks; ++index) {
    const bool last = index + 1 == blocks;
    const Block& block = *pass.blocks[index];
    step = walk.go_to(block.side());
    step.results = !last || wanted;
    if (block.has_pages()) {
      find_pages(block.kv_place(), *step.arrays, memory, step);
    }
    run(block.mix(), step);
    const bool gathers = pass.gathers && !pass.hands_on && block.side() == pass.output_side;
    if (last && gathers && arrays.num_hidden_rows == 0 && few) {
      step = wanted_rows(step, *pass.output, block.mixed_width() > 0, run);
    }
    if (step.results) {
      run(block.finish(), step);
    }
  }
  return wanted && walk.side() != pass.output_side ? walk.go_to(pass.output_side) : step;
}

}  // namespace

void find_pages(const KvPlace& place, const StepArrays& arrays, SequenceMemory& memory, Step& step) {
  const KvCache& pages = memory.pages(place.group);
  const std::int64_t table = std::int64_t{arrays.batch.num_sequences} * arrays.batch.max_blocks;
  step.cache = pages.plane(place.plane);
  step.layout = pages.planes()[static_cast<std::size_t>(place.plane)];
  step.batch.block_tables = arrays.batch.block_tables + place.group * table;
}

Step begin_step(const StepArrays& arrays, const StateView& states, Rank& rank) {
  return {.tokens = arrays.batch.num_tokens,
          .batch = arrays.batch,
          .any_single = arrays.any_single || arrays.most_rows > 1,
          .any_several = arrays.batch.max_q_len > 1 && arrays.most_rows <= 1,
          .most_rows = arrays.most_rows,
          .layout = {},
          .cache = {},
          .states = states,
          .buffers = rank.buffers(),
          .arrays = &arrays,
          .context = &rank.context(),
          .communicator = rank.communicator(),
          .adapters = arrays.adapters.any() ? &rank.adapters() : nullptr,
          .adapter_runs = arrays.adapters.tokens()};
}

void run_pass(const Pass& pass, const SideSteps& steps, SequenceMemory& memory, const KeepRows& keep_raw,
              const RunOperations& run) {
  Walk walk(pass, steps, run);
  if (pass.begin != nullptr) {
    run(*pass.begin, steps.at(pass.begin_side));
  }
  Step step = run_blocks(pass, steps, walk, memory, run);
  if (pass.hands_on) {
    return;
  }
  const StepArrays& arrays = *step.arrays;
  if (arrays.num_hidden_rows > 0) {
    Step rows = step;
    rows.tokens = arrays.num_hidden_rows;
    rows.adapter_runs = arrays.adapters.hidden();
    run(*pass.states, rows);
  }
  if (arrays.num_logit_rows == 0) {
    return;
  }
  if (arrays.num_logit_rows < step.tokens) {
    step = wanted_rows(step, *pass.output, false, run);
  }
  run(pass.output->logits(), step);
  if (!arrays.raw_rows.empty()) {
    keep_raw(arrays.raw_rows);
  }
  if (arrays.draw != Draw::none) {
    run(*pass.draw, step);
  }
}

}  // namespace rocmforge
