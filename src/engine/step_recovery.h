#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/sequence.h"

namespace rocmforge {

/// What becomes of sequences when there is no memory for a step. The step is tried again; where that does not help, each of
/// its sequences is tried alone, and who fails alone is to blame: it ends, the others go on.
class StepRecovery {
 public:
  static constexpr int most_attempts = 3;  ///< of a step with all of its sequences

  /// For steps of so many sequences. Nothing takes memory afterwards.
  explicit StepRecovery(std::size_t most_sequences) { suspects_.reserve(most_sequences); }

  /// A step of these chunks has found no memory; none: not even to choose them. Who is to end for it: nothing while there is
  /// something left to try, 0 where that can't be told.
  std::optional<RequestId> failed(std::span<const ScheduledChunk> step);
  /// A step has been computed.
  void succeeded();
  /// Leaves the chunk of the sequence that is tried alone now, if there is one.
  void narrow(std::vector<ScheduledChunk>& step);

 private:
  int failures_ = 0;                 ///< in a row
  std::vector<RequestId> suspects_;  ///< the next one last
};

}  // namespace rocmforge
