#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace rocmforge::cluster {

/// How a proxy chooses the replica of a request.
enum class Policy {
  round_robin,  ///< one after another
  least_load,   ///< with the fewest unfinished requests, of equal ones the next in turn
  affinity,     ///< by consistent hashing of the conversation's key, unless it has 1.5 times the average of requests
};

std::string_view name(Policy policy);
std::optional<Policy> policy_named(std::string_view name);

/// Consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam 2016; HAProxy's hash-balance-factor 150.
class Balancer {
 public:
  Balancer(Policy policy, std::int32_t replicas);
  /// `loads` are the unfinished requests of each replica.
  std::int32_t choose(std::uint64_t key, std::span<const std::int32_t> loads);

 private:
  [[nodiscard]] std::int32_t least_loaded(std::span<const std::int32_t> loads);
  [[nodiscard]] std::int32_t by_key(std::uint64_t key, std::span<const std::int32_t> loads) const;

  Policy policy_;
  std::int32_t next_ = 0;
  std::vector<std::pair<std::uint64_t, std::int32_t>> ring_;  ///< points and their replicas, ascending
};

}  // namespace rocmforge::cluster
