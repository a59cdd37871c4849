#pragma once

#include <cstddef>
#include <cstdint>

namespace rocmforge {

/// The slots of recurrent state that one sequence of a step uses. A slot is a fixed number of bytes: the state of all layers
/// without pages. A step reads one slot and writes another, so that a step that fails can be computed again.
struct StateSlots {
  std::int32_t read = -1;  ///< the state before the step; -1: the sequence starts, its state is zeros
  std::int32_t write =
      -1;  ///< gets the state after the step, never a slot that the step reads; -1 for padding: nothing is kept
  std::int32_t keep = -1;  ///< gets the state after the first `keep_rows` rows; -1: none
  std::int32_t keep_rows = 0;

  friend bool operator==(const StateSlots&, const StateSlots&) = default;
};

/// The slots in a device's memory, or the part of each that belongs to one layer.
struct StateView {
  std::byte* data = nullptr;     ///< of slot 0
  std::int64_t slot_stride = 0;  ///< bytes from one slot to the next
  std::int32_t num_slots = 0;

  /// From `offset` bytes into each slot on.
  [[nodiscard]] StateView at(std::int64_t offset) const { return {data + offset, slot_stride, num_slots}; }
  /// A slot's content as floats.
  [[nodiscard]] float* floats(std::int32_t slot) const { return reinterpret_cast<float*>(data + slot * slot_stride); }
};

}  // namespace rocmforge
