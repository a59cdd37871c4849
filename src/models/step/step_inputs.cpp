#include "models/step/step_inputs.h"

#include <algorithm>
#include <type_traits>

namespace rocmforge {
namespace {

constexpr std::size_t array_alignment = 16;
/// A row with penalties has one adjustment for each different token in its window, 64 tokens by default.
constexpr std::size_t usual_adjustments = 256;

template <class T>
std::size_t take(std::size_t& used, std::int64_t count) {
  const std::size_t start = used;
  used += (static_cast<std::size_t>(count) * sizeof(T) + array_alignment - 1) / array_alignment * array_alignment;
  return start;
}

bool is_greedy(const SampleTokens::Row& row) { return row.temperature <= 0.0f; }

Draw draw_of(const BatchPlan& plan) {
  if (plan.sample_rows.empty()) {
    return Draw::none;
  }
  return std::ranges::all_of(plan.sample_rows, is_greedy) ? Draw::greedy : Draw::any;
}

bool any_single(const BatchPlan& plan) {
  for (std::int32_t sequence = 0; sequence < plan.num_sequences(); ++sequence) {
    if (plan.q_len(sequence) == 1) {
      return true;
    }
  }
  return false;
}

std::vector<PromptSequence> prompts_of(const BatchPlan& plan) {
  std::vector<PromptSequence> prompts;
  for (std::int32_t sequence = 0; sequence < plan.num_sequences(); ++sequence) {
    const auto s = static_cast<std::size_t>(sequence);
    if (plan.q_len(sequence) > 1) {
      prompts.push_back({sequence, plan.query_offsets[s], plan.q_len(sequence), plan.kv_lengths[s]});
    }
  }
  return prompts;
}

/// The values of `from`, then `padding` up to `count`.
template <class T>
void put(std::byte* to, const std::vector<T>& from, std::int64_t count, const std::type_identity_t<T>& padding) {
  auto* out = reinterpret_cast<T*>(to);
  std::fill(std::copy(from.begin(), from.end(), out), out + count, padding);
}

/// The values of `from`, then up to `count` values, each larger by 1 than the one before.
void put_counting(std::byte* to, const std::vector<std::int32_t>& from, std::int64_t count, std::int32_t first) {
  auto* out = reinterpret_cast<std::int32_t*>(to);
  std::int32_t* end = std::copy(from.begin(), from.end(), out);
  while (end != out + count) {
    *end++ = first++;
  }
}

}  // namespace

StepArrays host_arrays(const BatchPlan& plan) {
  return {.tokens = plan.tokens.data(),
          .batch = plan.view(),
          .logit_rows = plan.logit_rows.data(),
          .num_logit_rows = plan.num_logit_rows(),
          .any_single = any_single(plan),
          .most_rows = plan.most_rows,
          .prompts = prompts_of(plan),
          .draw = draw_of(plan),
          .sample_rows = plan.sample_rows.data(),
          .adjustments = plan.adjustments.data(),
          .masks = plan.masks.data(),
          .overwritten_rows = plan.overwritten_rows.data(),
          .given_rows = plan.given_rows.data(),
          .given = plan.given,
          .num_overwritten = static_cast<std::int32_t>(plan.overwritten_rows.size()),
          .hidden_rows = plan.hidden_rows.data(),
          .num_hidden_rows = static_cast<std::int32_t>(plan.hidden_rows.size()),
          .raw_rows = plan.raw_rows,
          .adapters = AdapterRows(plan)};
}

StepInputs::Shape StepInputs::shape_of(const BatchPlan& plan) {
  const RaggedBatch view = plan.view();
  return {.tokens = view.num_tokens,
          .position_axes = view.position_axes,
          .spans = view.visible_end != nullptr,
          .sequences = view.num_sequences,
          .max_blocks = view.max_blocks,
          .groups = plan.num_groups(),
          .logit_rows = plan.num_logit_rows(),
          .max_q_len = view.max_q_len,
          .max_kv_len = view.max_kv_len,
          .any_single = any_single(plan),
          .most_rows = plan.most_rows,
          .draw = draw_of(plan),
          .masks = plan.num_masks(),
          .mask_words = plan.mask_words,
          .hidden_rows = static_cast<std::int32_t>(plan.hidden_rows.size()),
          .overwritten = static_cast<std::int32_t>(plan.overwritten_rows.size()),
          .states = !plan.states.empty()};
}

StepInputs::Layout StepInputs::lay_out(const Shape& shape) {
  Layout layout{};
  std::size_t used = 0;
  layout.sample_rows = take<SampleTokens::Row>(used, shape.draw == Draw::none ? 0 : shape.logit_rows);
  layout.tokens = take<std::int32_t>(used, shape.tokens);
  layout.positions = take<std::int32_t>(used, std::int64_t{shape.tokens} * shape.position_axes);
  layout.visible_end = take<std::int32_t>(used, shape.spans ? shape.tokens : 0);
  layout.sequence_of = take<std::int32_t>(used, shape.tokens);
  layout.query_offsets = take<std::int32_t>(used, shape.sequences + 1);
  layout.kv_lengths = take<std::int32_t>(used, shape.sequences);
  layout.block_tables = take<std::int32_t>(used, std::int64_t{shape.groups} * shape.sequences * shape.max_blocks);
  layout.states = take<StateSlots>(used, shape.states ? shape.sequences : 0);
  layout.logit_rows = take<std::int32_t>(used, shape.logit_rows);
  layout.hidden_rows = take<std::int32_t>(used, shape.hidden_rows);
  layout.overwritten_rows = take<std::int32_t>(used, shape.overwritten);
  layout.given_rows = take<std::int32_t>(used, shape.overwritten);
  layout.masks = take<std::uint32_t>(used, std::int64_t{shape.masks} * shape.mask_words);
  layout.adjustments = used;
  return layout;
}

std::size_t StepInputs::device_bytes(const Limits& limits) {
  const Shape largest{.tokens = limits.tokens,
                      .position_axes = limits.position_axes,
                      .spans = limits.spans,
                      .sequences = limits.sequences,
                      .max_blocks = limits.blocks,
                      .groups = limits.groups,
                      .logit_rows = limits.logit_rows,
                      .draw = Draw::any,
                      .hidden_rows = limits.tokens,
                      .overwritten = limits.given_rows ? limits.tokens : 0,
                      .states = limits.states};
  return lay_out(largest).adjustments +
         usual_adjustments * static_cast<std::size_t>(limits.logit_rows) * sizeof(SampleTokens::Adjustment);
}

StepInputs::StepInputs(Device& device, const Limits& limits)
    : device_(&device), staging_(static_cast<std::size_t>(limits.pending)) {
  make_room(device_bytes(limits));
}

void StepInputs::make_room(std::size_t size_bytes) {
  memory_ = {};  // free the old arrays first: there may not be enough memory for old and new arrays
  memory_ = device_->allocate(size_bytes, "the arrays of a step");
  for (Staging& staging : staging_) {
    staging.memory = device_->allocate_pinned(size_bytes);
    staging.copied.reset();
  }
}

StepArrays StepInputs::upload(const BatchPlan& plan, const Shape& shape, bool& moved) {
  const Layout layout = lay_out(shape);
  const std::size_t used = layout.adjustments + plan.adjustments.size() * sizeof(SampleTokens::Adjustment);
  moved = used > memory_.size_bytes();
  if (moved) {
    device_->stream().synchronize();
    make_room(2 * used);
  }
  Staging& staging = staging_[next_];
  next_ = (next_ + 1) % staging_.size();
  if (!staging.copied) {
    staging.copied.emplace(*device_);
  } else if (!staging.copied->finished()) {
    staging.copied->synchronize();
  }
  write(plan, shape, layout, staging.memory.data());
  device_->stream().copy_to_device(memory_.data(), staging.memory.data(), used);
  device_->stream().record(*staging.copied);

  const auto at = [&](std::size_t offset) { return reinterpret_cast<const std::int32_t*>(memory_.data() + offset); };
  StepArrays arrays;
  arrays.tokens = at(layout.tokens);
  arrays.batch = {.num_sequences = shape.sequences,
                  .num_tokens = shape.tokens,
                  .query_offsets = at(layout.query_offsets),
                  .kv_lengths = at(layout.kv_lengths),
                  .block_tables = at(layout.block_tables),
                  .max_blocks = shape.max_blocks,
                  .positions = at(layout.positions),
                  .sequence_of = at(layout.sequence_of),
                  .max_q_len = shape.max_q_len,
                  .max_kv_len = shape.max_kv_len,
                  .states = nullptr,
                  .position_axes = shape.position_axes,
                  .visible_end = shape.spans ? at(layout.visible_end) : nullptr};
  if (shape.states) {
    arrays.batch.states = reinterpret_cast<const StateSlots*>(memory_.data() + layout.states);
  }
  arrays.logit_rows = at(layout.logit_rows);
  arrays.num_logit_rows = shape.logit_rows;
  arrays.any_single = shape.any_single;
  arrays.most_rows = shape.most_rows;
  arrays.prompts = prompts_of(plan);
  arrays.draw = shape.draw;
  arrays.sample_rows = reinterpret_cast<const SampleTokens::Row*>(memory_.data() + layout.sample_rows);
  arrays.adjustments = reinterpret_cast<const SampleTokens::Adjustment*>(memory_.data() + layout.adjustments);
  arrays.masks = reinterpret_cast<const std::uint32_t*>(memory_.data() + layout.masks);
  arrays.overwritten_rows = at(layout.overwritten_rows);
  arrays.given_rows = at(layout.given_rows);
  arrays.given = plan.given;
  arrays.num_overwritten = shape.overwritten;
  arrays.hidden_rows = at(layout.hidden_rows);
  arrays.num_hidden_rows = shape.hidden_rows;
  arrays.raw_rows = plan.raw_rows;
  arrays.adapters = AdapterRows(plan);
  return arrays;
}

void StepInputs::write(const BatchPlan& plan, const Shape& shape, const Layout& layout, std::byte* to) const {
  if (shape.draw != Draw::none) {
    put(to + layout.sample_rows, plan.sample_rows, shape.logit_rows, SampleTokens::Row{});
  }
  put(to + layout.tokens, plan.tokens, shape.tokens, 0);
  put(to + layout.positions, plan.positions, std::int64_t{shape.tokens} * shape.position_axes, 0);
  put(to + layout.visible_end, plan.visible_end, shape.spans ? shape.tokens : 0, 0);
  put_counting(to + layout.sequence_of, plan.sequence_of, shape.tokens, plan.num_sequences());
  put_counting(to + layout.query_offsets, plan.query_offsets, shape.sequences + 1, plan.num_tokens() + 1);
  put(to + layout.kv_lengths, plan.kv_lengths, shape.sequences, 0);
  auto* tables = reinterpret_cast<std::int32_t*>(to + layout.block_tables);
  std::fill_n(tables, std::int64_t{shape.groups} * shape.sequences * shape.max_blocks, -1);
  auto row = plan.block_tables.begin();
  for (std::int32_t group = 0; group < plan.num_groups(); ++group) {
    for (std::int32_t s = 0; s < plan.num_sequences(); ++s) {
      std::copy_n(row, plan.max_blocks, tables + (std::ptrdiff_t{group} * shape.sequences + s) * shape.max_blocks);
      row += plan.max_blocks;
    }
  }
  if (shape.states) {
    put(to + layout.states, plan.states, shape.sequences, StateSlots{});
  }
  put_counting(to + layout.logit_rows, plan.logit_rows, shape.logit_rows, plan.num_logit_rows());
  put(to + layout.hidden_rows, plan.hidden_rows, shape.hidden_rows, 0);
  put(to + layout.overwritten_rows, plan.overwritten_rows, shape.overwritten, 0);
  put(to + layout.given_rows, plan.given_rows, shape.overwritten, 0);
  put(to + layout.masks, plan.masks, static_cast<std::int64_t>(plan.masks.size()), 0);
  put(to + layout.adjustments, plan.adjustments, static_cast<std::int64_t>(plan.adjustments.size()), {});
}

}  // namespace rocmforge
