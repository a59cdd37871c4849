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
#include "bench/kernel_bench.h"
#include "bench/measure.h"
#include "bench/step_check.h"
#include "bench/step_runner.h"
#include "commands/local_model.h"
#include "commands/pull_model.h"
#include "flags.h"
#include "terminal/text.h"
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

/// What was measured.
struct StepReport {
  std::string headline;
  Table table;
  double sum = 0.0;       ///< seconds of all operations by themselves
  double together = 0.0;  ///< as they follow each other
  double whole = 0.0;     ///< of a step
  double alone = 0.0;     ///< of a step that the host waits for; 0: not measured
  double tokens = 0.0;    ///< of a step
};

int print(const StepReport& report, const StepCheck& check, bool json) {
  if (json) {
    nlohmann::ordered_json out = {{"machine", report.headline},
                                  {"rows", report.table.json()},
                                  {"sum_us", report.sum * 1e6},
                                  {"together_us", report.together * 1e6},
                                  {"step_us", report.whole * 1e6}};
    if (report.alone > 0.0) {
      out["waited_step_us"] = report.alone * 1e6;
    }
    out["tokens_per_second"] = report.tokens / report.whole;
    out["right"] = check.wrong.empty();
    out["wrong"] = check.wrong;
    out["check"] = check.summary();
    print_json(out);
    return print_step_check(check);
  }
  fmt::print("{}\n", report.headline);
  report.table.print(stdout, true);
  const std::string alone =
      report.alone > 0.0 ? fmt::format(" ({:.1f} us when each is waited for)", report.alone * 1e6) : "";
  fmt::print("sum {:.1f} us, together {:.1f} us, whole step {:.1f} us{}, {:.1f} tok/s\n{}\n", report.sum * 1e6,
             report.together * 1e6, report.whole * 1e6, alone, report.tokens / report.whole, check.summary());
  return print_step_check(check);
}

/// A step that reads a prompt. Its time depends little on the bytes moved, so only times are shown.
StepReport time_prompt_step(Engine& engine, const StepFlags& flags) {
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
  StepReport report{.headline = fmt::format("{} ({}); a prompt of {} tokens after {} positions", engine.device_info().name,
                                            engine.device_info().architecture, flags.prompt, flags.context),
                    .table = Table({"operation", ">us", ">% of the sum"}),
                    .tokens = static_cast<double>(flags.prompt)};
  report.whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
  std::vector<OperationTime> times = runner.time_prompt(0, prompt, flags.context);
  report.together = take_together(times);
  report.sum = sum_of(times);
  for (const OperationTime& time : times) {
    report.table.add(
        {time.kind, fmt::format("{:.1f}", time.seconds * 1e6), fmt::format("{:.1f}", 100.0 * time.seconds / report.sum)});
  }
  return report;
}

/// The rate at which the device's memory is read, bytes per second.
double read_speed(Engine& engine) {
  Device& device = engine.device();
  if (!device.is_gpu()) {
    return read_bandwidth(engine.threads());
  }
  KernelRegistry registry;
  register_all_kernels(registry);
  const Ceilings ceilings = measure_gpu_ceilings(device, registry);
  ceiling_cache().store(device.info(), ceilings);
  return ceilings.read_bytes_per_second;
}

StepReport time_decode_step(Engine& engine, const StepFlags& flags, std::int32_t batch_tokens) {
  const double reads = read_speed(engine);
  StepRunner runner(engine, flags.sequences, flags.context + 1, batch_tokens);
  std::mt19937 random;
  const std::int32_t vocab = engine.model().config().vocab;
  for (std::int32_t sequence = 0; sequence < flags.sequences; ++sequence) {
    runner.prefill(sequence, random_tokens(random, vocab, flags.context), 0);
  }
  const std::vector<std::int32_t> tokens = random_tokens(random, vocab, flags.sequences);
  StepReport report{
      .headline = fmt::format("{} ({}), memory is read at {:.1f} GB/s; {} sequences of {} positions decode one token each",
                              engine.device_info().name, engine.device_info().architecture, reads / 1e9, flags.sequences,
                              flags.context),
      .table = Table({"operation", ">times", "kernel", ">us", ">% of the sum", ">MB moved", ">GB/s", ">% of reads"}),
      .tokens = static_cast<double>(flags.sequences)};
  report.alone = step_seconds(runner, tokens, flags.context, false);
  report.whole = step_seconds(runner, tokens, flags.context, true);
  auto times = runner.time_decode(tokens, flags.context);
  report.together = take_together(times);
  report.sum = sum_of(times);
  const auto kinds = kinds_of(engine.model(), flags.sequences, static_cast<double>(flags.sequences) * (flags.context + 1));
  for (const OperationTime& time : times) {
    const auto kind = kinds.find(time.kind);
    const double bytes = kind != kinds.end() ? kind->second.bytes : 0.0;
    report.table.add({time.kind, fmt::format("{}", kind != kinds.end() ? kind->second.times : 0),
                      kind != kinds.end() ? kind->second.kernel : "", fmt::format("{:.1f}", time.seconds * 1e6),
                      fmt::format("{:.1f}", 100.0 * time.seconds / report.sum), fmt::format("{:.2f}", bytes / 1e6),
                      fmt::format("{:.0f}", bytes / time.seconds / 1e9),
                      fmt::format("{:.1f}", 100.0 * bytes / time.seconds / reads)});
  }
  return report;
}

int bench_step(const StepFlags& flags) {
  EngineOptions options = flags.engine.options();
  options.prefix_cache = false;
  const std::int32_t length = flags.context + std::max(flags.prompt, 1);
  options.context_length = std::max(options.context_length, length);
  options.max_sequences = flags.sequences;
  options.kv_tokens = StepRunner::cache_tokens(flags.sequences, length);
  options.max_batch_tokens = std::max({options.max_batch_tokens, flags.sequences, flags.prompt});
  const std::string path = find_model(flags.model, options);
  auto engine = load_engine(path, options);
  const StepReport report =
      flags.prompt > 0 ? time_prompt_step(*engine, flags) : time_decode_step(*engine, flags, options.max_batch_tokens);
  engine.reset();
  const StepShape step =
      flags.prompt > 0 ? step_of(1, flags.prompt, flags.context) : step_of(flags.sequences, 1, flags.context);
  return print(report, check_steps(path, options, {step}), flags.json);
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
          "adds its copies, with the host a step ahead or waiting for each. After the timed steps the model is unloaded, "
          "and "
          "each kernel of the step's plan is called at the step's shapes with random inputs and poisoned outputs: every "
          "element is compared with the device's plain kernel or the scalar reference; one that is wrong makes the exit "
          "code "
          "1.",
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
