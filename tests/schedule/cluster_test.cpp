#include <gtest/gtest.h>

#include "cluster/simulation.h"

// bench/simulate_cluster: what must hold for every policy and seed.

namespace rocmforge::cluster {
namespace {

Options small(Policy policy, std::int32_t replicas = 3) {
  Options options;
  options.replicas = replicas;
  options.users_of_replicas = 3;
  options.policy = policy;
  options.mix = {.agents = 2, .chats = 2, .batches = 1};
  options.seconds = 10.0;
  return options;
}

TEST(Cluster, EveryRequestEndsOnce) {
  for (const Policy policy : {Policy::round_robin, Policy::least_load, Policy::affinity}) {
    Options options = small(policy);
    options.size.cache_tokens = 8192;  // sequences are preempted, and wait
    options.mix.agents = 6;
    options.seconds = 20.0;
    const Result result = simulate(options);
    EXPECT_GT(result.preemptions, 0) << name(policy);
    EXPECT_EQ(result.answers, result.requests) << name(policy);
    EXPECT_EQ(result.answers_without_request, 0) << name(policy);
    EXPECT_EQ(result.lost_blocks, 0) << name(policy);
    EXPECT_GT(result.generated_tokens, 20 * result.answers) << name(policy);
    EXPECT_LE(result.prefix_hits, result.prompt_tokens) << name(policy);
    EXPECT_LE(result.median_first_token, result.late_first_token) << name(policy);
  }
}

TEST(Cluster, TheSameSeedGivesTheSameResult) {
  Options options = small(Policy::affinity);
  const Result first = simulate(options);
  EXPECT_EQ(simulate(options), first);
  options.seed = 2;
  EXPECT_NE(simulate(options), first);
}

// One replica with the memory and speed of all has every prefix that any of them has.
TEST(Cluster, AffinityKeepsThePrefixHitsOfOneReplica) {
  Options one = small(Policy::affinity, 1);
  one.size.cache_tokens *= 3;
  const double all = simulate(one).hit_share();
  EXPECT_GT(all, 0.5);
  EXPECT_GE(simulate(small(Policy::affinity)).hit_share(), 0.9 * all);
  EXPECT_LT(simulate(small(Policy::round_robin)).hit_share(), 0.9 * all);
}

TEST(Cluster, LoadsAreBounded) {
  Balancer balancer(Policy::affinity, 4);
  std::vector<std::int32_t> loads(4);
  for (int i = 0; i < 400; ++i) {  // all of one conversation
    ++loads[static_cast<std::size_t>(balancer.choose(7, loads))];
  }
  EXPECT_LE(std::ranges::max(loads), 151);
  Balancer in_turn(Policy::least_load, 4);
  EXPECT_EQ(in_turn.choose(7, std::vector<std::int32_t>{2, 1, 3, 1}), 1);
}

}  // namespace
}  // namespace rocmforge::cluster
