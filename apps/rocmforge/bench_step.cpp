#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "flags.h"
#include "kernel_bench.h"
#include "load_engine.h"
#include "measure.h"
#include "pull_model.h"
#include "step_runner.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct StepFlags {
  ModelArgument model;
  std::int32_t context = 512;
  std::int32_t sequences = 1;
  std::int32_t prompt = 0;
  bool json = false;
  EngineFlags engine;
};

/// The operations of one kind: their kernels, their number, and the bytes that they move.
struct Kind {
  std::string kernel;
  int times = 0;
  double bytes = 0.0;
};

std::map<std::string, Kind, std::less<>> kinds_of(const Model& model, std::int32_t sequences, double positions) {
  std::map<std::string, Kind, std::less<>> kinds;
  const auto decodes = [](const PlannedOperation& operation) {
    return operation.operation == Attention::name && operation.spec.ends_with(" decode");
  };
  const bool two_phases = std::ranges::any_of(model.plan(), decodes);
  for (const PlannedOperation& operation : model.plan()) {
    // If prompts and single rows have different kernels, a decode step runs those for single rows.
    if (two_phases && operation.operation == Attention::name && !decodes(operation)) {
      continue;
    }
    if (operation.is_part(sequences)) {
      continue;
    }
    Kind& kind = kinds[std::string(operation_kind(operation.operation))];
    if (kind.kernel.find(operation.kernel) == std::string::npos) {
      kind.kernel += (kind.kernel.empty() ? "" : " + ") + operation.kernel;
    }
    kind.times += operation.times;
    kind.bytes += operation.times * (static_cast<double>(operation.weight_bytes + operation.activation_bytes) +
                                     static_cast<double>(operation.kv_bytes_per_position) * positions);
  }
  return kinds;
}

/// Mean seconds of a whole step. The host waits for each step, or with `ahead` only for the step before.
double step_seconds(StepRunner& runner, std::span<const std::int32_t> tokens, std::int32_t position, bool ahead) {
  constexpr int warm_up = 4;
  constexpr int steps = 40;
  const auto step = [&] { ahead ? runner.decode_ahead(tokens, position) : runner.decode(tokens, position); };
  for (int i = 0; i < warm_up; ++i) {
    step();
  }
  runner.finish();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) {
    step();
  }
  runner.finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
}

/// Removes the last element, which is the time of all operations together, and returns it.
double take_together(std::vector<OperationTime>& times) {
  const double seconds = times.back().seconds;
  times.pop_back();
  return seconds;
}

double sum_of(const std::vector<OperationTime>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0,
                         [](double sum, const OperationTime& t) { return sum + t.seconds; });
}

/// The JSON members that all reports of a step have.
nlohmann::ordered_json report_json(const std::string& machine, const Table& table, double sum, double together,
                                   double whole) {
  return {{"machine", machine},
          {"rows", table.json()},
          {"sum_us", sum * 1e6},
          {"together_us", together * 1e6},
          {"step_us", whole * 1e6}};
}

/// A step that reads a prompt. Its time depends little on the bytes moved, so only times are shown.
void bench_prompt(Engine& engine, const StepFlags& flags) {
  constexpr int steps = 5;
  StepRunner runner(engine, 1, flags.context + flags.prompt, std::max(flags.prompt, 1));
  std::mt19937 random;
  const std::vector<std::int32_t> tokens =
      random_tokens(random, engine.model().config().vocab, std::max(flags.context, flags.prompt));
  const std::span<const std::int32_t> prompt = std::span(tokens).first(static_cast<std::size_t>(flags.prompt));
  runner.prefill(0, std::span(tokens).first(static_cast<std::size_t>(flags.context)), 0);
  runner.prefill(0, prompt, flags.context);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) {
    runner.prefill(0, prompt, flags.context);
  }
  const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
  std::vector<OperationTime> times = runner.time_prompt(0, prompt, flags.context);
  const double together = take_together(times);
  const double sum = sum_of(times);
  const std::string headline = fmt::format("{} ({}); a prompt of {} tokens after {} positions", engine.device_info().name,
                                           engine.device_info().architecture, flags.prompt, flags.context);
  Table table({"operation", ">us", ">% of the sum"});
  for (const OperationTime& time : times) {
    table.add({time.kind, fmt::format("{:.1f}", time.seconds * 1e6), fmt::format("{:.1f}", 100.0 * time.seconds / sum)});
  }
  if (flags.json) {
    nlohmann::ordered_json report = report_json(headline, table, sum, together, whole);
    report["tokens_per_second"] = flags.prompt / whole;
    print_json(report);
    return;
  }
  fmt::print("{}\n", headline);
  table.print(stdout, true);
  fmt::print("sum {:.1f} us, together {:.1f} us, whole step {:.1f} us, {:.1f} tok/s\n", sum * 1e6, together * 1e6,
             whole * 1e6, flags.prompt / whole);
}

int bench_step(const StepFlags& flags) {
  EngineOptions options = flags.engine.options();
  options.prefix_cache = false;
  const std::int32_t length = flags.context + std::max(flags.prompt, 1);
  options.context_length = std::max(options.context_length, length);
  options.max_sequences = flags.sequences;
  options.kv_tokens = StepRunner::cache_tokens(flags.sequences, length);
  options.max_batch_tokens = std::max({options.max_batch_tokens, flags.sequences, flags.prompt});
  const auto engine = load_engine(find_model(flags.model, options), options);
  if (flags.prompt > 0) {
    bench_prompt(*engine, flags);
    return 0;
  }
  Device& device = engine->device();

  double reads = 0.0;
  if (device.is_gpu()) {
    KernelRegistry registry;
    register_all_kernels(registry);
    const Ceilings ceilings = measure_gpu_ceilings(device, registry);
    ceiling_cache().store(device.info(), ceilings);
    reads = ceilings.read_bytes_per_second;
  } else {
    reads = read_bandwidth(engine->threads());
  }

  StepRunner runner(*engine, flags.sequences, flags.context + 1, options.max_batch_tokens);
  std::mt19937 random;
  const std::int32_t vocab = engine->model().config().vocab;
  for (std::int32_t sequence = 0; sequence < flags.sequences; ++sequence) {
    runner.prefill(sequence, random_tokens(random, vocab, flags.context), 0);
  }
  const std::vector<std::int32_t> tokens = random_tokens(random, vocab, flags.sequences);
  const double alone = step_seconds(runner, tokens, flags.context, false);
  const double whole = step_seconds(runner, tokens, flags.context, true);
  auto times = runner.time_decode(tokens, flags.context);
  const double together = take_together(times);
  const auto kinds = kinds_of(engine->model(), flags.sequences, static_cast<double>(flags.sequences) * (flags.context + 1));

  const double sum = sum_of(times);
  const std::string headline =
      fmt::format("{} ({}), memory is read at {:.1f} GB/s; {} sequences of {} positions decode one token each",
                  device.info().name, device.info().architecture, reads / 1e9, flags.sequences, flags.context);
  Table table({"operation", ">times", "kernel", ">us", ">% of the sum", ">MB moved", ">GB/s", ">% of reads"});
  for (const OperationTime& time : times) {
    const auto kind = kinds.find(time.kind);
    const double bytes = kind != kinds.end() ? kind->second.bytes : 0.0;
    table.add({time.kind, fmt::format("{}", kind != kinds.end() ? kind->second.times : 0),
               kind != kinds.end() ? kind->second.kernel : "", fmt::format("{:.1f}", time.seconds * 1e6),
               fmt::format("{:.1f}", 100.0 * time.seconds / sum), fmt::format("{:.2f}", bytes / 1e6),
               fmt::format("{:.0f}", bytes / time.seconds / 1e9),
               fmt::format("{:.1f}", 100.0 * bytes / time.seconds / reads)});
  }
  if (flags.json) {
    nlohmann::ordered_json report = report_json(headline, table, sum, together, whole);
    report["waited_step_us"] = alone * 1e6;
    report["tokens_per_second"] = flags.sequences / whole;
    print_json(report);
    return 0;
  }
  fmt::print("{}\n", headline);
  table.print(stdout, true);
  fmt::print("sum {:.1f} us, together {:.1f} us, whole step {:.1f} us ({:.1f} us when each is waited for), {:.1f} tok/s\n",
             sum * 1e6, together * 1e6, whole * 1e6, alone * 1e6, flags.sequences / whole);
  return 0;
}

}  // namespace

Command bench_step_command() {
  auto flags = std::make_shared<StepFlags>();
  Command command = {
      .name = "step",
      .summary = "Share of each operation in a decode step",
      .notes =
          "Each kind of operation is timed by itself: its calls of all layers one after another, each with its own "
          "weights. Bytes count what one token moves (weights, activations) and the cache of all sequences; more "
          "sequences move more activations than that. Together: all operations as they follow each other. The whole step "
          "adds its copies, with the host a step ahead or waiting for each.",
      .examples = {"rocmforge bench step model.gguf --depth 4096 --sequences 16"},
      .action = [flags] { return bench_step(*flags); }};
  add_model(command, flags->model);
  command.options.push_back({.names = "-d,--depth",
                             .target = &flags->context,
                             .meaning = "Positions in the cache before the step",
                             .range = {.least = 1, .most = 1 << 20}});
  command.options.push_back({.names = "--sequences",
                             .target = &flags->sequences,
                             .meaning = "Sequences that decode at once",
                             .range = {.least = 1, .most = 256}});
  command.options.push_back({.names = "-p,--prompt",
                             .target = &flags->prompt,
                             .meaning = "Time a step that reads a prompt of N tokens instead, in one sequence",
                             .range = {.least = 0, .most = 65536}});
  command.options.push_back(json_option(flags->json));
  flags->engine.add_to(command);
  command.drop("--context");
  return command;
}

}  // namespace rocmforge::app
