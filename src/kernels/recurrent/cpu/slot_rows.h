#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/kv_layout.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// Calls step(t, state) for each row t of sequence `s`. `state` is `elems` floats of the sequence's state, from float
/// `first` of a slot on: in the slot that is written, or in memory of its own for a sequence that keeps none.
template <class Step>
void for_each_row_in_slot(const StateView& states, const RaggedBatch& batch, std::int64_t s, std::int64_t first,
                          std::int64_t elems, const Step& step) {
  const StateSlots& slots = batch.states[s];
  const auto in_slot = [&](std::int32_t slot) { return states.floats(slot) + first; };
  std::vector<float> unkept(slots.write < 0 ? static_cast<std::size_t>(elems) : 0);
  float* state = slots.write < 0 ? unkept.data() : in_slot(slots.write);
  if (slots.read >= 0) {
    std::copy_n(in_slot(slots.read), elems, state);
  } else {
    std::fill_n(state, elems, 0.0f);
  }
  const std::int64_t begin = batch.query_offsets[s];
  for (std::int64_t t = begin; t < batch.query_offsets[s + 1]; ++t) {
    step(t, state);
    if (slots.keep >= 0 && t - begin + 1 == slots.keep_rows) {
      std::copy_n(state, elems, in_slot(slots.keep));
    }
  }
}

}  // namespace rocmforge
