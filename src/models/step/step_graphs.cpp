#include "models/step/step_graphs.h"

#include <algorithm>
#include <bit>

namespace rocmforge {
namespace {

/// Shorter KV lengths share one graph: separate ones gain nothing.
constexpr std::int32_t least_kv_len = 1024;

std::int32_t to_power_of_two(std::int32_t value) {
  return static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(value)));
}

}  // namespace

/// Records the graphs of a shape while it runs them, or replays them.
class StepGraphs::Cut {
 public:
  Cut(Stream& stream, Graphs& graphs) : stream_(&stream), graphs_(&graphs), records_(graphs.empty()) {}
  ~Cut() {
    if (open_ && records_) {
      stream_->abandon_capture();
    }
  }
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;

  void run(const Operations& operations, const Step& step) {
    for (const Operation& operation : operations) {
      // Between two of them the host side of a split model may have operations of its own.
      const bool on_host = operation.on_host || step.context->stream == nullptr;
      if (on_host) {
        launch_open();
        operation.run(step);
        continue;
      }
      if (!open_ && records_) {
        stream_->begin_capture();
      }
      open_ = true;
      if (records_) {
        operation.run(step);
      }
    }
  }
  /// Launches what the device has to do since the last operation of the host.
  void launch_open() {
    if (!open_) {
      return;
    }
    open_ = false;
    if (records_) {
      graphs_->push_back(stream_->end_capture());
    }
    check(next_ < graphs_->size(), "a recorded step has the same parts each time");
    stream_->launch((*graphs_)[next_++]);
  }

 private:
  Stream* stream_;
  Graphs* graphs_;
  bool records_;
  bool open_ = false;  ///< the device has operations that are not launched
  std::size_t next_ = 0;
};

void StepGraphs::run_cut(const StepInputs::Shape& shape, const std::function<void(const RunOperations&)>& compute) {
  Graphs* graphs = find(shape);
  if (graphs == nullptr) {
    compute(run_all);
    return;
  }
  const bool recorded = !graphs->empty();
  try {
    Cut cut(*stream_, *graphs);
    compute([&cut](const Operations& operations, const Step& step) { cut.run(operations, step); });
    cut.launch_open();
  } catch (...) {
    if (!recorded) {
      stream_->synchronize();
      graphs->clear();
    }
    throw;
  }
}

StepGraphs::Graphs* StepGraphs::find(const StepInputs::Shape& shape) {
  const Key key{shape.sequences, shape.tokens,          shape.most_rows, shape.max_blocks,
                shape.masks,     shape.hidden_rows > 0, shape.draw};
  if (Graphs* graphs = graphs_.find(key)) {
    return graphs;
  }
  make_room();
  graphs_.add(key, {});
  return nullptr;
}

StepGraphs::~StepGraphs() {
  try {
    clear();
  } catch (const Error&) {  // the device has failed: no graph runs any more
  }
}

void StepGraphs::clear() {
  if (!graphs_.empty()) {
    stream_->synchronize();
    graphs_.clear();
  }
}

void StepGraphs::make_room() {
  if (graphs_.full()) {
    if (!graphs_.oldest().empty()) {
      stream_->synchronize();
    }
    graphs_.drop_oldest();
  }
}

bool StepGraphs::serves(const BatchPlan& plan, const Limits& limits) {
  const bool hidden_of_all = std::ssize(plan.hidden_rows) == plan.num_tokens();
  const bool wants_logits_alone =
      plan.num_logit_rows() == plan.num_tokens() && plan.raw_rows.empty() && (plan.hidden_rows.empty() || hidden_of_all);
  if (!plan.adapters.empty()) {  // its launches depend on which sequences have which
    return false;
  }
  const bool is_text = plan.position_axes == 1 && plan.visible_end.empty() && plan.overwritten_rows.empty();
  if (!wants_logits_alone || !is_text) {
    return false;
  }
  if (plan.most_rows <= 1) {
    return plan.num_tokens() == plan.num_sequences() && plan.num_sequences() <= limits.sequences;
  }
  const std::int32_t tokens = to_power_of_two(plan.num_tokens());
  // Each row that is added is a sequence of its own.
  return plan.num_sequences() + tokens - plan.num_tokens() <= limits.sequences && tokens <= limits.rows;
}

StepInputs::Shape StepGraphs::padded(StepInputs::Shape shape, const Limits& limits) {
  if (shape.most_rows > 1) {
    const std::int32_t tokens = to_power_of_two(shape.tokens);
    shape.sequences += tokens - shape.tokens;
    shape.tokens = tokens;
    shape.max_q_len = shape.most_rows;
    shape.any_single = true;
  } else {
    shape.sequences = std::min(to_power_of_two(shape.sequences), limits.sequences);
    shape.tokens = shape.sequences;
  }
  shape.logit_rows = shape.tokens;
  shape.hidden_rows = shape.hidden_rows > 0 ? shape.tokens : 0;
  shape.masks = shape.masks > 0 ? to_power_of_two(shape.masks) : 0;
  shape.max_kv_len = std::min(to_power_of_two(std::max(shape.max_kv_len, least_kv_len)), limits.kv_len);
  shape.max_blocks = std::max(shape.max_blocks, (shape.max_kv_len + limits.block_tokens - 1) / limits.block_tokens);
  return shape;
}

}  // namespace rocmforge
