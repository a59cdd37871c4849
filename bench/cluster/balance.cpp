#include "cluster/balance.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "cluster/trace.h"

namespace rocmforge::cluster {
namespace {

constexpr std::array policies{std::pair{Policy::round_robin, std::string_view("round-robin")},
                              std::pair{Policy::least_load, std::string_view("least-load")},
                              std::pair{Policy::affinity, std::string_view("affinity")}};
constexpr std::int32_t points_of_replica = 64;
constexpr double balance_factor = 1.5;

}  // namespace

std::string_view name(Policy policy) {
  return std::ranges::find(policies, policy, [](const auto& entry) { return entry.first; })->second;
}

std::optional<Policy> policy_named(std::string_view name) {
  const auto* const found = std::ranges::find(policies, name, [](const auto& entry) { return entry.second; });
  return found != policies.end() ? std::optional(found->first) : std::nullopt;
}

Balancer::Balancer(Policy policy, std::int32_t replicas) : policy_(policy) {
  for (std::int32_t replica = 0; replica < replicas; ++replica) {
    Random points(static_cast<std::uint64_t>(replica));
    for (std::int32_t point = 0; point < points_of_replica; ++point) {
      ring_.emplace_back(points.next(), replica);
    }
  }
  std::ranges::sort(ring_);
}

std::int32_t Balancer::choose(std::uint64_t key, std::span<const std::int32_t> loads) {
  const auto count = static_cast<std::int32_t>(loads.size());
  const std::int32_t chosen = policy_ == Policy::round_robin  ? next_
                              : policy_ == Policy::least_load ? least_loaded(loads)
                                                              : by_key(key, loads);
  next_ = (chosen + 1) % count;
  return chosen;
}

std::int32_t Balancer::least_loaded(std::span<const std::int32_t> loads) {
  const auto count = static_cast<std::int32_t>(loads.size());
  std::int32_t best = next_;
  for (std::int32_t i = 1; i < count; ++i) {
    const std::int32_t replica = (next_ + i) % count;
    if (loads[static_cast<std::size_t>(replica)] < loads[static_cast<std::size_t>(best)]) {
      best = replica;
    }
  }
  return best;
}

std::int32_t Balancer::by_key(std::uint64_t key, std::span<const std::int32_t> loads) const {
  const double average = (std::accumulate(loads.begin(), loads.end(), 0.0) + 1.0) / static_cast<double>(loads.size());
  auto point = std::ranges::lower_bound(ring_, std::pair(key, std::int32_t{0}));
  for (std::size_t tried = 0; tried < ring_.size(); ++tried, ++point) {
    point = point == ring_.end() ? ring_.begin() : point;
    if (loads[static_cast<std::size_t>(point->second)] < balance_factor * average) {
      break;
    }
  }
  return point->second;  // at least one replica has no more than the average
}

}  // namespace rocmforge::cluster
