#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cluster/simulation.h"

// Many servers behind a proxy, with the engine's scheduler, page tables and prefix caches, and steps that take the time that
// is told. Prints a line for each number of replicas and policy.

namespace rocmforge::cluster {
namespace {

struct Arguments {
  std::vector<std::int32_t> replicas{1, 10, 100};
  std::vector<std::string> policies{"round-robin", "least-load", "affinity"};
  Options options;
  double step_ms = 5.0;
  double prompt_token_us = 60.0;
  double sequence_us = 50.0;
  double cached_token_ns = 30.0;
};

void add_flags(CLI::App& app, Arguments& arguments) {
  Options& options = arguments.options;
  app.add_option("--replicas", arguments.replicas, "1 to 1000, several with commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000));
  app.add_option("--policy", arguments.policies, "round-robin, least-load, affinity; several with commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"round-robin", "least-load", "affinity"}));
  app.add_option("--seconds", options.seconds, "users send for so long")->check(CLI::Range(1.0, 3600.0));
  app.add_option("--seed", options.seed, "of the trace");
  app.add_option("--agents", options.mix.agents, "for each replica")->check(CLI::Range(0, 1000));
  app.add_option("--chats", options.mix.chats, "for each replica")->check(CLI::Range(0, 1000));
  app.add_option("--batches", options.mix.batches, "for each replica")->check(CLI::Range(0, 100));
  app.add_option("--cache-tokens", options.size.cache_tokens, "positions of a replica's cache")
      ->check(CLI::Range(8192, 1 << 24));
  app.add_option("--max-sequences", options.size.limits.max_sequences, "of a step")->check(CLI::Range(1, 1024));
  app.add_option("--batch-tokens", options.size.limits.max_batch_tokens, "of a step")->check(CLI::Range(1, 65536));
  app.add_option("--step-ms", arguments.step_ms, "of each step")->check(CLI::Range(0.001, 10000.0));
  app.add_option("--prompt-token-us", arguments.prompt_token_us, "of each prompt token")->check(CLI::Range(0.0, 1e6));
  app.add_option("--sequence-us", arguments.sequence_us, "of each sequence that draws")->check(CLI::Range(0.0, 1e6));
  app.add_option("--cached-token-ns", arguments.cached_token_ns, "of each position that attention reads")
      ->check(CLI::Range(0.0, 1e6));
}

void print_line(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const Result result = simulate(options);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("| {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} | {} | {:.1f} |\n", options.replicas, name(options.policy),
             result.answers, result.tokens_per_second(), result.median_first_token * 1e3, result.late_first_token * 1e3,
             result.hit_share() * 100.0, result.preemptions, took);
  std::fflush(stdout);
}

void run(Arguments arguments) {
  Options& options = arguments.options;
  options.cost = {.step = arguments.step_ms * 1e-3,
                  .prompt_token = arguments.prompt_token_us * 1e-6,
                  .sequence = arguments.sequence_us * 1e-6,
                  .cached_token = arguments.cached_token_ns * 1e-9};
  fmt::print(
      "| replicas | policy | answers | tokens/s | first token, ms | 99 % of them, ms | prompt found, % | preempted | took, "
      "s |\n"
      "|---:|---|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const std::int32_t replicas : arguments.replicas) {
    for (const std::string& policy : arguments.policies) {
      options.replicas = replicas;
      options.policy = policy_named(policy).value();
      print_line(options);
    }
  }
}

}  // namespace
}  // namespace rocmforge::cluster

int main(int argc, char** argv) {
  CLI::App app("Simulates many servers behind a proxy");
  rocmforge::cluster::Arguments arguments;
  rocmforge::cluster::add_flags(app, arguments);
  CLI11_PARSE(app, argc, argv);
  try {
    rocmforge::cluster::run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "simulate_cluster: {}\n", error.what());
    return 1;
  }
  return 0;
}
