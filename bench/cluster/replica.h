#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cluster/trace.h"
#include "schedule/scheduler.h"

namespace rocmforge::cluster {

/// The seconds of a step: their sum for what it computes. A straight line through measured steps.
struct StepCost {
  double step = 5e-3;             ///< every step: the weights are read once
  double prompt_token = 60e-6;    ///< each token of a prompt that it computes
  double sequence = 50e-6;        ///< each sequence that draws a token
  double cached_token = 0.03e-6;  ///< each position that attention reads for a sequence
};

struct ReplicaSize {
  SchedulerLimits limits{.max_batch_tokens = 512, .max_sequences = 32, .context_length = 8192};
  std::int32_t cache_tokens = 49152;
  std::int32_t block_tokens = 32;
};

/// What a step has brought.
struct ReplicaEvents {
  std::vector<RequestId> first_tokens;  ///< of these requests
  struct Answer {
    RequestId id = 0;
    std::vector<std::int32_t> tokens;  ///< prompt and answer
  };
  std::vector<Answer> answers;
};

/// A server: its scheduler, page tables and prefix cache are those of the engine; a step takes the time that StepCost tells,
/// and draws tokens of no meaning.
class Replica {
 public:
  Replica(const ReplicaSize& size, const StepCost& cost);

  /// It is part of the steps that begin later. Throws std::invalid_argument for a request that never fits.
  void submit(RequestId id, TraceRequest request);
  /// Begins the next step and returns its seconds. There is something to do, and no step is running.
  double begin_step();
  /// Ends the step that has begun.
  ReplicaEvents end_step();

  [[nodiscard]] bool is_stepping() const { return !step_.empty(); }
  [[nodiscard]] bool has_work() const { return !sequences_.empty() || !arrived_.empty(); }
  [[nodiscard]] std::int32_t unfinished() const { return static_cast<std::int32_t>(sequences_.size() + arrived_.size()); }
  [[nodiscard]] std::int64_t prefix_queries() const { return scheduler_.prefix_queries(); }
  [[nodiscard]] std::int64_t prefix_hits() const { return scheduler_.prefix_hits(); }
  [[nodiscard]] std::int64_t preemptions() const { return scheduler_.num_preemptions(); }
  /// Blocks that no sequence holds: free ones, and those that only the prefix cache has.
  [[nodiscard]] std::int32_t available_blocks() const;
  [[nodiscard]] std::int32_t num_blocks() const { return cache_.blocks().num_blocks(); }

 private:
  void take_arrived();

  StepCost cost_;
  SequenceCache cache_;
  Scheduler scheduler_;
  std::vector<std::pair<RequestId, TraceRequest>> arrived_;  ///< since the last step has begun
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;
  std::vector<ScheduledChunk> step_;
};

}  // namespace rocmforge::cluster
