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
  return plan.num_tokens() == plan.num_sequences() && plan.num_logit_rows() == plan.num_sequences() &&
         plan.num_sequences() <= limits.sequences && plan.raw_rows.empty() && plan.hidden_rows.empty() &&
         plan.position_axes == 1;
}

StepInputs::Shape StepGraphs::padded(StepInputs::Shape shape, const Limits& limits) {
  const std::int32_t sequences = std::min(to_power_of_two(shape.sequences), limits.sequences);
  shape.tokens = sequences;
  shape.sequences = sequences;
  shape.logit_rows = sequences;
  shape.masks = shape.masks > 0 ? to_power_of_two(shape.masks) : 0;
  shape.max_kv_len = std::min(to_power_of_two(std::max(shape.max_kv_len, least_kv_len)), limits.kv_len);
  shape.max_blocks = std::max(shape.max_blocks, (shape.max_kv_len + limits.block_tokens - 1) / limits.block_tokens);
  return shape;
}

}  // namespace rocmforge
