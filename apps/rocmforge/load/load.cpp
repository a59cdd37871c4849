#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "command.h"
#include "load/load_arrivals.h"
#include "load/load_client.h"
#include "load/load_clock.h"
#include "load/load_report.h"
#include "terminal/interrupt.h"
#include "terminal/progress.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

using namespace std::chrono_literals;

struct LoadFlags {
  LoadTarget target{.url = "http://127.0.0.1:8080"};
  std::int32_t concurrency = 8;
  double rate = 0.0;
  std::int32_t requests = 0;
  double duration_seconds = 0.0;
  std::string prompt_lengths = "512";
  std::string output_lengths = "128";
  double drop_share = 0.0;
  std::string forbidden;
  std::uint64_t seed = 1;
  std::string json_path;
  std::string svg_path;
};

constexpr std::int64_t most_token_id = 1 << 24;
constexpr std::int32_t most_clients = 16384;
/// The most concurrent requests if there is a rate. Further requests are sent late, and the delay counts as waiting time.
constexpr std::int32_t most_clients_by_rate = 1024;
/// Limits the rate of requests to a server that refuses them.
constexpr auto pause_after_failure = 250ms;

OfferedLoad offered_load(const LoadFlags& flags) {
  const bool endless = flags.requests == 0 && flags.duration_seconds == 0.0;
  return {flags.rate,
          endless ? 10 * flags.concurrency : flags.requests,
          flags.duration_seconds,
          Lengths::parse("--prompt-tokens", flags.prompt_lengths),
          Lengths::parse("--output-tokens", flags.output_lengths),
          flags.drop_share,
          flags.seed};
}

/// Opens the report file; empty without a path. Called before the run, so that a wrong path is reported at once.
std::optional<std::ofstream> open_report(const std::string& path) {
  if (path.empty() || path == "-") {
    return std::nullopt;
  }
  std::ofstream file(path, std::ios::binary);
  if (!file) {
    throw UsageError(fmt::format("{}: can't be written", path));
  }
  return file;
}

void write_report(std::optional<std::ofstream>& file, const std::string& path, const std::string& text) {
  if (file && !(*file << text << std::flush)) {
    throw Error(fmt::format("{}: can't be written", path));
  }
}

/// A run in progress: the clients, and the results of the requests that have ended.
class LoadGenerator {
 public:
  LoadGenerator(const LoadTarget& target, const OfferedLoad& offered)
      : target_(target), by_rate_(offered.rate > 0.0), arrivals_(offered, clock_) {}

  /// Runs to the end. Ctrl-C starts no more requests and waits for the running ones.
  std::vector<LoadSample> run(std::int32_t count) {
    const InterruptScope interrupt(InterruptScope::Second::ends);
    Progress progress("requests");
    std::vector<std::jthread> clients;
    try {
      for (std::int32_t i = 0; i < count; ++i) {
        clients.emplace_back([this] { work(); });
      }
    } catch (...) {  // no more threads
      arrivals_.stop();
      throw;
    }
    std::unique_lock lock(mutex_);
    while (ended_ < count) {
      client_ended_.wait_for(lock, 100ms);
      progress.update(arrivals_.share(), fmt::format("{} answered", samples_.size()));
      if (InterruptScope::take()) {
        arrivals_.stop();
      }
    }
    return std::move(samples_);
  }

  [[nodiscard]] double seconds() const { return clock_.now(); }

 private:
  void work() {
    std::optional<LoadClient> client;
    for (LoadRequest request; arrivals_.take(request);) {
      if (!client || by_rate_) {  // requests by rate are of different clients: each opens a connection
        client.emplace(target_, clock_);
      }
      LoadSample sample = client->send(request);
      const bool failed = !sample.error.empty();
      {
        const std::lock_guard lock(mutex_);
        samples_.push_back(std::move(sample));
      }
      if (failed) {
        std::this_thread::sleep_for(pause_after_failure);
      }
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    client_ended_.notify_all();
  }

  LoadClock clock_;
  const LoadTarget& target_;
  bool by_rate_;
  LoadArrivals arrivals_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable client_ended_;
  std::vector<LoadSample> samples_;
  std::int32_t ended_ = 0;
};

int load(LoadFlags flags) {
  const OfferedLoad offered = offered_load(flags);
  flags.target.forbidden = parse_integers(flags.forbidden, "--forbid", 0, most_token_id);
  find_model_of(flags.target);
  std::optional<std::ofstream> json = open_report(flags.json_path);
  std::optional<std::ofstream> svg = open_report(flags.svg_path);

  LoadGenerator generator(flags.target, offered);
  LoadRun run;
  run.samples = generator.run(offered.rate > 0.0 ? most_clients_by_rate : flags.concurrency);
  run.seconds = generator.seconds();
  run.target = flags.target;
  run.arrivals =
      offered.rate > 0.0 ? fmt::format("{} requests a second", offered.rate) : fmt::format("{} at once", flags.concurrency);
  run.prompts = flags.prompt_lengths;
  run.outputs = flags.output_lengths;
  const LoadSummary summary = summarise(run);
  if (flags.json_path == "-") {
    fmt::print("{}", load_json(run, summary));
  } else {
    print_load(run, summary);
  }
  write_report(json, flags.json_path, load_json(run, summary));
  write_report(svg, flags.svg_path, load_svg(run));
  return summary.failed == 0 && summary.completed + summary.dropped > 0 ? 0 : 1;
}

}  // namespace

Command load_command() {
  auto flags = std::make_shared<LoadFlags>();
  Command command = {
      .name = "load",
      .summary = "Put load on a running server and measure it",
      .notes =
          "Streams completions of random tokens and reports throughput, time to first token and inter-token latency. "
          "Lengths are 512 (always), 100-900 (any alike) or 512~64 (normal). Ends with code 1 when a request failed.",
      .examples =
          {"rocmforge load --concurrency 32 --requests 200",
           "rocmforge load http://10.0.0.2:8000 --rate 4 --duration 60 --prompt-tokens 100-900 --output-tokens 128~32 "
           "--svg load.svg"},
      .action = [flags] { return load(*flags); }};
  const auto add = [&](Option option) { command.options.push_back(std::move(option)); };
  const auto number = [&](const char* names, Target target, const char* meaning, double least, double most) {
    add({.names = names, .target = target, .meaning = meaning, .range = {.least = least, .most = most}});
  };
  LoadTarget& target = flags->target;
  add({"URL", &target.url, "The server, of any make that speaks OpenAI's API"});
  number("--concurrency", &flags->concurrency, "Requests under way at once", 1, most_clients);
  number("--rate", &flags->rate, "Requests a second, at random moments (in place of --concurrency)", 0, 100'000);
  command.option("--rate").excludes = {"--concurrency"};
  number("--requests", &flags->requests, "Requests in all; 0: ten for each client, unless --duration is given", 0,
         100'000'000);
  number("--duration", &flags->duration_seconds, "Seconds in which requests start; 0: until all are sent", 0, 10'000'000);
  add({"--prompt-tokens", &flags->prompt_lengths, "Lengths of the prompts", "LENGTHS"});
  add({"--output-tokens", &flags->output_lengths, "Lengths of the answers", "LENGTHS"});
  number("--drop", &flags->drop_share, "Share of clients that leave in the middle of an answer", 0, 1);
  add({"--forbid", &flags->forbidden, "Tokens no answer may have: those without text, which bring no event", "ID,ID..."});
  add({"--seed", &flags->seed, "Of lengths, prompts and moments"});
  number("--timeout", &target.timeout_seconds, "Seconds without a sign of life before a request fails", 1, 1'000'000);
  add({.names = "--api-key",
       .target = &target.api_key,
       .meaning = "Sent as a bearer token",
       .value = "KEY",
       .environment = "ROCMFORGE_API_KEY"});
  number("--vocab", &target.vocab, "Size of the vocabulary, for servers that don't say; 0: ask", 0, 100'000'000);
  add({"--json", &flags->json_path, "Write all figures to this file; -: to standard output, and nothing else", "FILE"});
  add({"--svg", &flags->svg_path, "Draw the run into this file", "FILE"});
  return command;
}

}  // namespace rocmforge::app
