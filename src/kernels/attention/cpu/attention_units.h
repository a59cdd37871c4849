#pragma once

#include "kernels/launch/cpu/body/bodies.h"
#include "ops/attention.h"

namespace rocmforge {

/// The work of one call as a list of units (tiles of at most max_unit_rows query rows of one KV head of one sequence), and
/// each unit's work as chunks of keys. Within a sequence the tiles with the most keys come first.
class AttentionUnits {
 public:
  AttentionUnits(const Attention::Spec& spec, const KvLayout& layout, const Attention::Args& args)
      : spec_(spec), layout_(layout), args_(args), group_(spec.q_heads / spec.kv_heads) {}

  [[nodiscard]] std::int64_t units_of(std::int32_t sequence) const;
  /// Unit `index` of a sequence.
  [[nodiscard]] AttentionUnit unit(std::int32_t sequence, std::int64_t index) const;
  [[nodiscard]] std::int32_t num_sequences() const { return args_.batch.num_sequences; }

 private:
  const Attention::Spec& spec_;
  const KvLayout& layout_;
  const Attention::Args& args_;
  std::int32_t group_;
};

/// The chunks that hold keys visible to a unit's rows: [first, end).
struct ChunkRange {
  std::int32_t first;
  std::int32_t end;
  [[nodiscard]] std::int32_t count() const { return end - first; }
};
ChunkRange visible_chunks(const AttentionUnit& unit);

/// Walks the units of a call in order, without a look-up for each unit.
class UnitCursor {
 public:
  explicit UnitCursor(const AttentionUnits& units) : units_(units) { settle(); }

  [[nodiscard]] bool at_end() const { return sequence_ == units_.num_sequences(); }
  void next() {
    ++index_;
    settle();
  }
  /// The current unit's number in the call.
  [[nodiscard]] std::int64_t number() const { return before_ + index_; }
  [[nodiscard]] AttentionUnit unit() const { return units_.unit(sequence_, index_); }

 private:
  void settle() {
    while (!at_end() && index_ == units_.units_of(sequence_)) {
      before_ += index_;
      index_ = 0;
      ++sequence_;
    }
  }

  const AttentionUnits& units_;
  std::int32_t sequence_ = 0;
  std::int64_t index_ = 0;
  std::int64_t before_ = 0;  ///< units of earlier sequences
};

/// How threads share a call: units as a whole, or, when these are too few or too uneven, the chunks of all units, whose
/// softmaxes are then folded in order, a round of chunks at a time. Both give the same bits.
struct AttentionSchedule {
  std::int64_t num_units = 0;
  std::int64_t num_chunks = 0;  ///< of all units together
  bool by_chunk = false;
};
AttentionSchedule make_schedule(const AttentionUnits& units, int num_threads);

/// Limits of a schedule by chunk, which the workspace is sized for.
constexpr std::int64_t max_units_per_thread = 4;
constexpr std::int64_t round_chunks_per_thread = 16;

/// The workspace cut into pieces: scratch memory and two states per thread, then the states of a schedule by chunk.
class AttentionWorkspace {
 public:
  /// `state_rows` is the most rows a unit of the call has.
  AttentionWorkspace(float* memory, const Attention::Spec& spec, std::int64_t state_rows, int num_threads);

  [[nodiscard]] AttentionScratch scratch(int thread) const;
  [[nodiscard]] AttentionState thread_state(int thread) const { return state(thread_states_, 2 * thread); }
  [[nodiscard]] AttentionState thread_part(int thread) const { return state(thread_states_, 2 * thread + 1); }
  [[nodiscard]] AttentionState unit_state(std::int64_t unit) const { return state(unit_states_, unit); }
  [[nodiscard]] AttentionState chunk_part(std::int64_t slot) const { return state(chunk_parts_, slot); }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(end_) * sizeof(float); }

 private:
  [[nodiscard]] AttentionState state(std::int64_t offset, std::int64_t index) const;

  float* memory_;
  std::int32_t head_dim_;
  std::int64_t state_rows_;
  std::int64_t state_floats_;
  std::int64_t thread_states_;
  std::int64_t unit_states_;
  std::int64_t chunk_parts_;
  std::int64_t end_;
};

}  // namespace rocmforge
