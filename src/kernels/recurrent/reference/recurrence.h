#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/kv_layout.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// Calls step(t, state) for each row t of sequence `s`. `state` holds `elems` floats of the sequence's state, from float
/// `first` of a slot on. It is read from the slot of the state before the rows (zeros without one) and written to the slots
/// that keep it.
///
/// The state is f32 between rows as it is in the slots, so that a row has the same bits however its sequence is cut into
/// steps.
template <class Step>
void for_each_row(const StateView& states, const RaggedBatch& batch, std::int64_t s, std::int64_t first, std::int64_t elems,
                  const Step& step) {
  const StateSlots& slots = batch.states[s];
  const auto in_slot = [&](std::int32_t slot) { return states.floats(slot) + first; };
  std::vector<float> state(static_cast<std::size_t>(elems), 0.0f);
  if (slots.read >= 0) {
    state.assign(in_slot(slots.read), in_slot(slots.read) + elems);
  }
  const auto keep = [&](std::int32_t slot) {
    if (slot >= 0) {
      std::ranges::copy(state, in_slot(slot));
    }
  };
  const std::int64_t begin = batch.query_offsets[s];
  for (std::int64_t t = begin; t < batch.query_offsets[s + 1]; ++t) {
    step(t, state);
    if (t - begin + 1 == slots.keep_rows) {
      keep(slots.keep);
    }
  }
  keep(slots.write);
}

}  // namespace rocmforge
