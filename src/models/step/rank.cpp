#include "models/step/rank.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rocmforge {
namespace {

/// The smallest blocks a cache may have.
constexpr std::int32_t least_block_tokens = 16;

}  // namespace

Rank::Rank(ModelPlan& plan, const ModelOptions& options, const Devices& devices, Side side, ThreadPool& pool,
           const Progress& progress)
    : options_(&options), device_(&devices.at(side)), context_{&pool}, draws_(*device_, options.max_logit_rows) {
  plan.weights_of(side).load(*device_, pool, progress);
  if (side == Side::device && plan.draft) {
    plan.draft->load(*device_, pool, {});
  }
  const BufferPlan& buffers = plan.buffers_of(side);
  if (Device& beside = devices.at(Side::device); side == Side::host && beside.is_gpu()) {
    pinned_workspace_ = beside.allocate_pinned(buffers.size_bytes());
    buffers_ = buffers.place(pinned_workspace_.data());
  } else {
    workspace_ = device_->allocate(buffers.size_bytes(), "the workspace");
    buffers_ = buffers.place(workspace_.data());
  }
  if (device_->is_gpu()) {
    context_.stream = &device_->stream();
    inputs_.emplace(*device_, input_limits(plan, options));
    for (auto& inputs : half_inputs_) {
      if (plan.halves_from > 0) {
        inputs.emplace(*device_, half_limits(plan, options));
      }
    }
    graphs_.emplace(device_->stream());
    sent_.emplace(*device_);
  }
}

Rank::~Rank() {
  try {
    wait();
  } catch (const Error&) {  // the device has failed
  }
}

StepInputs::Limits Rank::input_limits(const ModelPlan& plan, const ModelOptions& options) {
  return {.tokens = options.max_batch_tokens,
          .position_axes = plan.position_axes,
          .spans = options.spans,
          .given_rows = options.given_rows,
          .sequences = std::min(options.max_sequences, options.max_batch_tokens),
          .blocks = (options.context_length + least_block_tokens - 1) / least_block_tokens,
          .groups = static_cast<std::int32_t>(plan.memory.groups().size()),
          .logit_rows = options.max_logit_rows,
          .states = plan.states_elsewhere || plan.memory.state_bytes(Side::device) + plan.memory.state_bytes(Side::host) > 0,
          .pending = options.pending_steps};
}

StepInputs::Limits Rank::half_limits(const ModelPlan& plan, const ModelOptions& options) {
  StepInputs::Limits limits = input_limits(plan, options);
  limits.spans = limits.given_rows = limits.states = false;
  limits.logit_rows = 0;
  return limits;
}

std::size_t Rank::workspace_bytes(const ModelPlan& plan, const ModelOptions& options, bool on_gpu) {
  std::size_t inputs = 0;
  if (on_gpu) {
    inputs = StepInputs::device_bytes(input_limits(plan, options));
    inputs += plan.halves_from > 0 ? 2 * StepInputs::device_bytes(half_limits(plan, options)) : 0;
  }
  return plan.buffers.size_bytes() + inputs;
}

void Rank::run(const BatchPlan& batch, const SequenceMemory& memory, Recorded recorded, const Compute& compute) {
  if (on_gpu()) {
    run_on_gpu(batch, memory, recorded, compute);
  } else {
    compute(host_arrays(batch), run_all);
  }
}

void Rank::run_on_gpu(const BatchPlan& batch, const SequenceMemory& memory, Recorded recorded, const Compute& compute) {
  if (GraphsMemory used = graphs_memory(memory); used != graphs_memory_) {
    graphs_->clear();
    graphs_memory_ = std::move(used);
  }
  const StepGraphs::Limits limits{
      .sequences = std::min({options_->max_sequences, options_->max_batch_tokens, options_->max_logit_rows}),
      .kv_len = options_->context_length,
      .block_tokens = memory.block_tokens(),
      .rows = std::min(options_->max_batch_tokens, options_->max_logit_rows)};
  if (!StepGraphs::serves(batch, limits)) {
    recorded = Recorded::no;
  }
  StepInputs::Shape shape = StepInputs::shape_of(batch);
  if (recorded != Recorded::no) {
    shape = StepGraphs::padded(shape, limits);
  }
  Stream& stream = device_->stream();
  stream.allow_overlap(options_->overlap);
  stream.allow_merging(options_->merge_launches);
  pending_ = true;
  // Before any launch of the step: kernels that start early rely on a copy between two steps (tile/launch_order.h).
  const StepArrays arrays = arrays_of(batch, shape);
  if (recorded == Recorded::whole) {
    graphs_->run(shape, [&] { compute(arrays, run_all); });
  } else if (recorded == Recorded::cut) {
    graphs_->run_cut(shape, [&](const RunOperations& run) { compute(arrays, run); });
  } else {
    compute(arrays, run_all);
  }
}

StepArrays Rank::arrays_of(const BatchPlan& batch, const StepInputs::Shape& shape) {
  if (!on_gpu()) {
    return host_arrays(batch);
  }
  bool moved = false;
  StepArrays arrays = inputs_->upload(batch, shape, moved);
  if (moved) {
    graphs_->clear();
  }
  return arrays;
}

StepArrays Rank::arrays_of_half(std::size_t half, const BatchPlan& batch) {
  if (!on_gpu()) {
    return host_arrays(batch);
  }
  bool moved = false;
  return half_inputs_.at(half).value().upload(batch, StepInputs::shape_of(batch), moved);
}

Rank::GraphsMemory Rank::graphs_memory(const SequenceMemory& memory) {
  GraphsMemory used{{}, memory.num_blocks(), memory.block_tokens(), memory.states().data};
  for (std::int32_t group = 0; group < memory.num_groups(); ++group) {
    used.pages.push_back(memory.pages(group).data());
  }
  return used;
}

void Rank::wait() {
  if (pending_) {
    device_->stream().synchronize();
    pending_ = false;
  }
}

void Rank::copy_to_host(std::byte* to, const void* from, std::size_t bytes) {
  if (on_gpu()) {
    device_->stream().copy_to_host(to, from, bytes);
    pending_ = true;
  } else {
    std::memcpy(to, from, bytes);
  }
}

std::span<const float> Rank::read_back(const float* from, std::size_t count, PinnedBuffer& to) {
  if (!on_gpu() || count == 0) {
    return {from, count};
  }
  if (to.size_bytes() < count * sizeof(float)) {
    to = {};
    to = device_->allocate_pinned(count * sizeof(float));
  }
  copy_to_host(to.data(), from, count * sizeof(float));
  wait();
  return {to.as<float>(), count};
}

}  // namespace rocmforge
