#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "models/step/step_inputs.h"

namespace rocmforge {

/// Decode steps of a GPU as graphs: of each shape the first step runs as it is, the second is recorded, and from then on one
/// launch replays all of its kernels. Steps of nearly the same shape share a graph: sequences are padded to a power of two,
/// and kernels are told a KV length that is a power of two.
class StepGraphs {
 public:
  struct Limits {
    std::int32_t sequences = 0;
    std::int32_t kv_len = 0;
    std::int32_t block_tokens = 0;
  };

  /// Whether every sequence of the plan has one row, wants its logits and nothing else: only such steps are recorded.
  static bool serves(const BatchPlan& plan, const Limits& limits);
  /// The shape that stands for `shape`: sequences, KV length, block tables and masks rounded up, at most to the limits.
  static StepInputs::Shape padded(StepInputs::Shape shape, const Limits& limits);

  /// Runs `compute` on the stream, or replays what it launched before for this shape. `compute` reads its arrays at the same
  /// addresses for the same shape.
  template <class Compute>
  void run(Stream& stream, const StepInputs::Shape& shape, Compute&& compute) {
    auto [entry, is_new] = graphs_.try_emplace(Key{shape.sequences, shape.max_blocks, shape.masks, shape.draw});
    if (is_new) {
      compute();  // what the runtime prepares at a kernel's first launch can't be recorded
      return;
    }
    if (!entry->second) {
      entry->second = stream.capture(compute);
    }
    stream.launch(entry->second);
  }

  /// Forgets everything, because addresses have changed.
  void clear() { graphs_.clear(); }

 private:
  struct Key {
    std::int32_t sequences;
    std::int32_t max_blocks;
    std::int32_t masks;
    Draw draw;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  std::map<Key, Graph> graphs_;
};

}  // namespace rocmforge
