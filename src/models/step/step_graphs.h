#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/recent_map.h"
#include "models/parts/operation.h"
#include "models/step/step_inputs.h"

namespace rocmforge {

/// Decode steps of a GPU, and those of few rows a sequence, as graphs: the first step of each shape runs normally, the
/// second is recorded, and from then on one launch replays all of its kernels. Steps of nearly the same shape share a graph:
/// sequences are padded to a power of two (in steps of few rows their tokens), and kernels get a KV length that is a power
/// of two. The most recently used graphs are kept; one that may still run is destroyed after a wait for the stream.
class StepGraphs {
 public:
  /// The most graphs that are kept. A graph of a model of 32 layers has about 300 launches.
  static constexpr std::size_t most_shapes = 128;

  /// `stream` runs the graphs, and outlives them.
  explicit StepGraphs(Stream& stream) : stream_(&stream) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  struct Limits {
    std::int32_t sequences = 0;
    std::int32_t kv_len = 0;
    std::int32_t block_tokens = 0;
    std::int32_t rows = 0;  ///< of a step, with logits
  };

  /// Whether every sequence of the plan has one row with one position, or all have few (BatchPlan::most_rows), and every row
  /// wants its logits, with or without the hidden states of all rows, and nothing else, without adapters: only such steps
  /// are recorded.
  static bool serves(const BatchPlan& plan, const Limits& limits);
  /// The shape used for `shape`: sequences, KV length, block tables and masks rounded up, at most to the limits.
  static StepInputs::Shape padded(StepInputs::Shape shape, const Limits& limits);

  /// Runs `compute` on the stream, or replays its recorded launches for this shape. `compute` reads its arrays at the same
  /// addresses for the same shape.
  template <class Compute>
  void run(const StepInputs::Shape& shape, Compute&& compute) {
    Graphs* graphs = find(shape);
    if (graphs == nullptr) {
      compute();  // the runtime's preparations at a kernel's first launch can't be recorded
      return;
    }
    if (graphs->empty()) {
      graphs->push_back(stream_->capture(compute));
    }
    stream_->launch(graphs->front());
  }
  /// The same for steps with operations of the host (Operation::on_host), which run each time: what the device does before,
  /// between and behind them is a graph each. `compute` passes its operations to the function it gets, always the same ones.
  void run_cut(const StepInputs::Shape& shape, const std::function<void(const RunOperations&)>& compute);

  /// Drops all graphs; call when addresses have changed.
  void clear();

 private:
  struct Key {
    std::int32_t sequences;
    std::int32_t tokens;
    std::int32_t most_rows;
    std::int32_t max_blocks;
    std::int32_t masks;
    bool hidden;
    Draw draw;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Graphs = std::vector<Graph>;
  class Cut;
  /// Those of a shape; null when it is new. Then an empty entry is added.
  Graphs* find(const StepInputs::Shape& shape);
  void make_room();

  Stream* stream_;
  RecentMap<Key, Graphs> graphs_{most_shapes};  ///< empty for a shape that ran only once
};

}  // namespace rocmforge
