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
    if (graphs_.oldest()) {
      stream_->synchronize();
    }
    graphs_.drop_oldest();
  }
}

bool StepGraphs::serves(const BatchPlan& plan, const Limits& limits) {
  const bool wants_logits_alone =
      plan.num_logit_rows() == plan.num_tokens() && plan.raw_rows.empty() && plan.hidden_rows.empty();
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
  shape.masks = shape.masks > 0 ? to_power_of_two(shape.masks) : 0;
  shape.max_kv_len = std::min(to_power_of_two(std::max(shape.max_kv_len, least_kv_len)), limits.kv_len);
  shape.max_blocks = std::max(shape.max_blocks, (shape.max_kv_len + limits.block_tokens - 1) / limits.block_tokens);
  return shape;
}

}  // namespace rocmforge
