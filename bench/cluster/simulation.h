#pragma once

#include <cstdint>

#include "cluster/balance.h"
#include "cluster/replica.h"

namespace rocmforge::cluster {

/// So many users of each kind for each replica: a larger cluster gets more of them.
struct Mix {
  std::int32_t agents = 8;
  std::int32_t chats = 24;
  std::int32_t batches = 2;
};

struct Options {
  std::int32_t replicas = 1;
  /// The users are those of so many replicas; 0: of `replicas`.
  std::int32_t users_of_replicas = 0;
  Policy policy = Policy::affinity;
  Mix mix{};
  ReplicaSize size{};
  StepCost cost{};
  double seconds = 60.0;  ///< users send until then; what they have sent is answered
  std::uint64_t seed = 1;
};

struct Result {
  std::int64_t requests = 0;
  std::int64_t answers = 0;
  std::int64_t answers_without_request = 0;  ///< or second ones: there are none
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t prefix_hits = 0;  ///< prompt tokens that a replica had computed before
  std::int64_t preemptions = 0;
  std::int64_t steps = 0;
  std::int64_t lost_blocks = 0;     ///< that are held at the end though no sequence is left
  double seconds = 0.0;             ///< until the last answer
  double median_first_token = 0.0;  ///< seconds
  double late_first_token = 0.0;    ///< seconds: of 99 % of the requests it comes sooner

  [[nodiscard]] double hit_share() const {
    return prompt_tokens > 0 ? static_cast<double>(prefix_hits) / static_cast<double>(prompt_tokens) : 0.0;
  }
  [[nodiscard]] double tokens_per_second() const {
    return seconds > 0.0 ? static_cast<double>(generated_tokens) / seconds : 0.0;
  }
  friend bool operator==(const Result&, const Result&) = default;
};

/// The same options give the same result. Its time grows with the steps of all replicas.
Result simulate(const Options& options);

}  // namespace rocmforge::cluster
