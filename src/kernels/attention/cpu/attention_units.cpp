#include "kernels/attention/cpu/attention_units.h"

#include <algorithm>

#include "kernels/check/arguments/arguments.h"
#include "kernels/formats/cpu/kv_element_of.h"

namespace rocmforge {
namespace {

std::int64_t scratch_floats(std::int32_t head_dim) {
  const std::int64_t padded = padded_head_dim(head_dim);
  return max_unit_rows * (padded + attention_score_stride) + padded * attention_score_stride +
         attention_chunk * (padded + 16);
}

}  // namespace

std::int64_t AttentionUnits::units_of(std::int32_t sequence) const {
  const std::int64_t q_len = args_.batch.query_offsets[sequence + 1] - args_.batch.query_offsets[sequence];
  if (!computes(args_.rows, q_len)) {
    return 0;
  }
  return (q_len * group_ + max_unit_rows - 1) / max_unit_rows * spec_.kv_heads;
}

AttentionUnit AttentionUnits::unit(std::int32_t sequence, std::int64_t index) const {
  const RaggedBatch& batch = args_.batch;
  const std::int32_t first_row = batch.query_offsets[sequence];
  const std::int32_t q_len = batch.query_offsets[sequence + 1] - first_row;
  const std::int32_t rows = q_len * group_;
  const std::int32_t tiles = (rows + max_unit_rows - 1) / max_unit_rows;
  const auto tile = tiles - 1 - static_cast<std::int32_t>(index / spec_.kv_heads);
  const auto kv_head = static_cast<std::int32_t>(index % spec_.kv_heads);
  const std::int64_t first_head = std::int64_t{kv_head} * group_;
  const std::int64_t out_stride = std::int64_t{spec_.q_heads} * spec_.out_dim();
  return {
      .q = static_cast<const float*>(args_.q) + first_row * args_.q_stride + first_head * spec_.head_dim,
      .q_stride = args_.q_stride,
      .out = static_cast<float*>(args_.out) + first_row * out_stride + first_head * spec_.out_dim(),
      .out_stride = out_stride,
      .row_begin = tile * max_unit_rows,
      .row_end = std::min(rows, (tile + 1) * max_unit_rows),
      .first_position = batch.kv_lengths[sequence] - q_len,
      .group = group_,
      .head_dim = spec_.head_dim,
      .value_dim = spec_.out_dim(),
      .latent = layout_.is_latent(),
      .window = spec_.window,
      .chunked = spec_.chunked,
      .ahead = spec_.causal       ? 0
               : spec_.window > 0 ? spec_.window - 1
                                  : batch.kv_lengths[sequence] + q_len,
      .kv_len = batch.kv_lengths[sequence],
      .visible_end = spec_.spans ? batch.visible_end + first_row : nullptr,
      .scale = attention_scale(spec_),
      .soft_cap = spec_.soft_cap,
      .sinks = spec_.sinks ? args_.sinks + kv_head * group_ : nullptr,
      .k = kv_store_of(layout_.dtype.k),
      .v = kv_store_of(layout_.dtype.v),
      .v_rotated = layout_.dtype.v_rotated,
      .cache = static_cast<const std::uint8_t*>(args_.cache.data),
      .blocks = batch.block_tables + std::int64_t{sequence} * batch.max_blocks,
      .block_tokens = layout_.block_tokens,
      .block_bytes = static_cast<std::int64_t>(layout_.block_bytes()),
      .k_offset = static_cast<std::int64_t>(layout_.head_at(false, kv_head)),
      .v_offset = static_cast<std::int64_t>(layout_.head_at(true, kv_head)),
  };
}

ChunkRange visible_chunks(const AttentionUnit& unit) {
  return {first_visible(unit, unit.row_begin) / attention_chunk,
          (end_visible(unit, unit.row_end - 1) - 1) / attention_chunk + 1};
}

AttentionSchedule make_schedule(const AttentionUnits& units, int num_threads) {
  AttentionSchedule schedule;
  std::int64_t longest = 0;
  for (UnitCursor cursor(units); !cursor.at_end(); cursor.next()) {
    const std::int64_t chunks = visible_chunks(cursor.unit()).count();
    longest = std::max(longest, chunks);
    schedule.num_chunks += chunks;
    ++schedule.num_units;
  }
  const bool even = schedule.num_units % num_threads == 0 && longest * schedule.num_units <= schedule.num_chunks * 5 / 4;
  schedule.by_chunk = num_threads > 1 && schedule.num_units < max_units_per_thread * num_threads && !even &&
                      schedule.num_chunks >= 2 * schedule.num_units;
  return schedule;
}

AttentionWorkspace::AttentionWorkspace(float* memory, const Attention::Spec& spec, std::int64_t state_rows, int num_threads)
    : memory_(memory), head_dim_(spec.head_dim), state_rows_((state_rows + 15) / 16 * 16) {
  state_floats_ = state_rows_ * (padded_head_dim(spec.out_dim()) + 2);
  thread_states_ = num_threads * scratch_floats(head_dim_);
  unit_states_ = thread_states_ + 2 * num_threads * state_floats_;
  chunk_parts_ = unit_states_ + (num_threads > 1 ? max_units_per_thread * num_threads * state_floats_ : 0);
  end_ = chunk_parts_ + (num_threads > 1 ? round_chunks_per_thread * num_threads * state_floats_ : 0);
}

AttentionScratch AttentionWorkspace::scratch(int thread) const {
  const std::int64_t padded = padded_head_dim(head_dim_);
  AttentionScratch scratch;
  scratch.queries = memory_ + thread * scratch_floats(head_dim_);
  scratch.scores = scratch.queries + max_unit_rows * padded;
  scratch.keys = scratch.scores + max_unit_rows * attention_score_stride;
  scratch.values = scratch.keys + padded * attention_score_stride;
  return scratch;
}

AttentionState AttentionWorkspace::state(std::int64_t offset, std::int64_t index) const {
  float* start = memory_ + offset + index * state_floats_;
  return {start, start + state_rows_, start + 2 * state_rows_};
}

}  // namespace rocmforge
