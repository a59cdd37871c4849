#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "flags.h"
#include "kernel_bench.h"
#include "kernel_bench_commands.h"
#include "measure.h"
#include "model_path.h"
#include "step_runner.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct StepFlags {
  std::string model;
  std::int32_t context = 512;
  std::int32_t sequences = 1;
  EngineFlags engine;
};

/// What the operations of one kind move and who serves them.
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
    // Where prompts and single rows have kernels of their own, a decode step runs the latter.
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

/// Seconds of a whole step as the engine runs it.
double step_seconds(StepRunner& runner, std::span<const std::int32_t> tokens, std::int32_t position) {
  constexpr int warm_up = 4;
  constexpr int steps = 20;
  for (int i = 0; i < warm_up; ++i) {
    runner.decode(tokens, position);
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) {
    runner.decode(tokens, position);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
}

int bench_step(const StepFlags& flags) {
  if (flags.context < 1 || flags.sequences < 1 || flags.sequences > 256) {
    throw UsageError(fmt::format("--depth is {} and --sequences {}: at least 1 position, 1 to 256 sequences", flags.context,
                                 flags.sequences));
  }
  EngineOptions options = flags.engine.options();
  options.prefix_cache = false;
  options.context_length = std::max(options.context_length, flags.context + 1);
  options.max_sequences = flags.sequences;
  options.kv_tokens = StepRunner::cache_tokens(flags.sequences, flags.context + 1);
  options.max_batch_tokens = std::max(options.max_batch_tokens, flags.sequences);
  const auto engine = load_engine(find_model(flags.model), options);
  Device& device = engine->device();

  double reads = 0.0;
  if (device.is_gpu()) {
    KernelRegistry registry;
    register_all_kernels(registry);
    const Ceilings ceilings = measure_gpu_ceilings(device, registry);
    ceiling_cache().store(device.info().name, ceilings);
    reads = ceilings.read_bytes_per_second;
  } else {
    reads = read_bandwidth(engine->threads());
  }

  StepRunner runner(*engine, flags.sequences, flags.context + 1, options.max_batch_tokens);
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(flags.context), 1);
  for (std::int32_t sequence = 0; sequence < flags.sequences; ++sequence) {
    runner.prefill(sequence, prompt, 0);
  }
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(flags.sequences), 1);
  const double whole = step_seconds(runner, tokens, flags.context);
  const auto times = runner.time_decode(tokens, flags.context);
  const auto kinds = kinds_of(engine->model(), flags.sequences, static_cast<double>(flags.sequences) * (flags.context + 1));

  double sum = 0.0;
  for (const OperationTime& time : times) {
    sum += time.seconds;
  }
  fmt::print("{} ({}), memory is read at {:.1f} GB/s; {} sequences of {} positions decode one token each\n",
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
  table.print(stdout, true);
  fmt::print("sum {:.1f} us, whole step {:.1f} us, {:.1f} tok/s\n", sum * 1e6, whole * 1e6, flags.sequences / whole);
  return 0;
}

}  // namespace

void add_bench_step(CLI::App& bench, Action& action) {
  auto flags = std::make_shared<StepFlags>();
  CLI::App* command = bench.add_subcommand("step", "Share of each operation in a decode step");
  command->footer(
      "Each kind of operation is timed by itself: its calls of all layers one after another, each with its own weights. "
      "Bytes\n"
      "count what one token moves (weights, activations) and the cache of all sequences; more sequences move more\n"
      "activations than that. The whole step is timed as the engine runs it.\n\nExamples:\n"
      "  rocmforge bench step model.gguf --depth 4096 --sequences 16");
  command->add_option("MODEL", flags->model, "GGUF file; without it the demo model")->type_name("");
  command->add_option("-d,--depth", flags->context, "Positions in the cache before the step")->capture_default_str();
  command->add_option("--sequences", flags->sequences, "Sequences that decode at once")->capture_default_str();
  flags->engine.add_to(*command);
  command->remove_option(command->get_option("--context"));
  command->callback([flags, &action] { action = [flags] { return bench_step(*flags); }; });
}

}  // namespace rocmforge::app
