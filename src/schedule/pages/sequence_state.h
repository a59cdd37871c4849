#pragma once

#include <cstdint>

#include "schedule/pages/block_allocator.h"

namespace rocmforge {

/// The slots of one sequence's recurrent state, for models with such a state: two of its own, of which a step reads one and
/// writes the other. So a step that fails does not change the state, and can be computed again. The first step of a sequence
/// may read a kept state, which other sequences may read too. Holds a reference to each; not copyable.
class SequenceState {
 public:
  /// What a step does with the state of one sequence.
  struct Step {
    SlotId from = -1;  ///< -1: the sequence starts
    SlotId to = -1;
    SlotId kept = -1;              ///< also gets the state behind the first `kept_tokens` positions; -1: none
    std::int32_t kept_tokens = 0;  ///< of the sequence
  };

  /// null: the model has no state, and no slot is held.
  explicit SequenceState(BlockAllocator* slots) : slots_(slots) {}
  ~SequenceState() { clear(); }
  SequenceState(const SequenceState&) = delete;
  SequenceState& operator=(const SequenceState&) = delete;

  /// The number of slots that a sequence must have to run.
  static constexpr std::int32_t own_slots = 2;
  [[nodiscard]] bool has_own() const { return own_[0] >= 0; }
  /// Allocates the two own slots, which must be free, if it has none.
  void reserve();
  /// The next step reads `slot`, which is retained until that step has been computed; -1: the sequence starts.
  void start_from(SlotId slot);
  [[nodiscard]] SlotId start() const { return start_; }
  /// An own slot, which the next step reads: the state is copied there before.
  SlotId restore();
  /// The next step. With `kept_tokens` > 0 the state after so many positions is kept in a new slot; a slot must be free.
  [[nodiscard]] Step next(std::int32_t kept_tokens);
  /// The step after `computing`, which has not ended yet.
  [[nodiscard]] Step after(const Step& computing) const;
  /// Call when the step has been computed. Returns whether that released the slot from which the sequence started.
  bool advance(const Step& computed);
  /// The slot in which a step last kept a state, -1 for none.
  [[nodiscard]] SlotId kept() const { return kept_; }
  void release_kept();
  /// Releases all slots.
  void clear();

 private:
  /// Whether it held one.
  bool release(SlotId& slot);

  BlockAllocator* slots_;
  SlotId own_[own_slots] = {-1, -1};
  SlotId newest_ = -1;  ///< the own slot that holds the state; -1 before the first step
  SlotId start_ = -1;   ///< what the first step reads
  SlotId kept_ = -1;
};

}  // namespace rocmforge
