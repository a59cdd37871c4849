#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/sequence.h"

namespace rocmforge {

/// Recovers from a step that runs out of memory. The step is tried again. If that does not help, each of its sequences is
/// tried alone, and one that fails alone ends; the others go on.
class StepRecovery {
 public:
  static constexpr int most_attempts = 3;  ///< of a step with all of its sequences

  /// For steps of up to `most_sequences` sequences. After construction nothing allocates.
  explicit StepRecovery(std::size_t most_sequences) { suspects_.reserve(most_sequences); }

  /// A step of these chunks has run out of memory (no chunks: already while choosing them). Returns the sequence to end:
  /// none while another attempt remains, 0 if the sequence at fault is not known.
  std::optional<RequestId> failed(std::span<const ScheduledChunk> step);
  /// Call when a step has been computed.
  void succeeded();
  /// If a sequence is being tried alone, removes all chunks but its own.
  void narrow(std::vector<ScheduledChunk>& step);

 private:
  int failures_ = 0;                 ///< in a row
  std::vector<RequestId> suspects_;  ///< sequences to try alone, the next one last
};

}  // namespace rocmforge
