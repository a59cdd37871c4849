#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/printable.h"
#include "base/thread_pool.h"
#include "bench/bench_report.h"
#include "bench/kernel_bench.h"
#include "bench/measure.h"
#include "bench/step_check.h"
#include "bench/step_runner.h"
#include "commands.h"
#include "commands/local_model.h"
#include "commands/model_summary.h"
#include "commands/plan_table.h"
#include "commands/pull_model.h"
#include "flags.h"
#include "kernels/register_all.h"
#include "terminal/progress.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr std::int64_t most_tokens = 1 << 20;

struct BenchFlags {
  ModelArgument model;
  std::string prompts = "512";
  std::string generations = "128";
  std::vector<std::string> pairs;
  std::string depths = "0";
  std::string batch_sizes = "1";
  std::string threads = "0";
  std::int32_t repetitions = 5;
  std::string format = "md";
  bool json = false;
  EngineFlags engine;
};

/// Reads `prompt` tokens, then generates `generated`, after `depth` tokens in the cache, in `sequences` sequences at once.
struct BenchTest {
  std::int32_t prompt = 0;
  std::int32_t generated = 0;
  std::int32_t depth = 0;
  std::int32_t sequences = 1;

  [[nodiscard]] std::int32_t length() const { return depth + prompt + generated; }
  [[nodiscard]] std::string name() const {
    std::string text = prompt > 0 ? fmt::format("pp{}", prompt) : "";
    text += generated > 0 ? fmt::format("{}tg{}", text.empty() ? "" : "+", generated) : "";
    text += sequences > 1 ? fmt::format(" x{}", sequences) : "";
    return text + (depth > 0 ? fmt::format(" @ d{}", depth) : "");
  }
};

std::vector<BenchTest> plan_tests(const BenchFlags& flags) {
  const auto depths = parse_integers(flags.depths, "--depth", 0, most_tokens);
  std::vector<BenchTest> tests;
  for (const std::int32_t depth : depths) {
    for (const std::int32_t prompt : parse_integers(flags.prompts, "--prompt", 0, most_tokens)) {
      tests.push_back({.prompt = prompt, .depth = depth});
    }
    for (const std::int32_t sequences : parse_integers(flags.batch_sizes, "--batch-sizes", 1, 256)) {
      for (const std::int32_t generated : parse_integers(flags.generations, "--generate", 0, most_tokens)) {
        tests.push_back({.generated = generated, .depth = depth, .sequences = sequences});
      }
    }
    for (const std::string& text : flags.pairs) {
      const auto pair = parse_integers(text, "--pg", 1, most_tokens);
      if (pair.size() != 2) {
        throw UsageError(fmt::format("--pg: '{}' is not PP,TG, as in 512,128", text));
      }
      tests.push_back({.prompt = pair[0], .generated = pair[1], .depth = depth});
    }
  }
  std::erase_if(tests, [](const BenchTest& test) { return test.prompt + test.generated == 0; });
  if (tests.empty()) {
    throw UsageError("there is nothing to measure: -p, -n and --pg are all 0");
  }
  return tests;
}

/// Elements of the weights that every token is multiplied by (the blocks), and of those that only rows with logits are
/// multiplied by (the output layer).
struct MultiplyCounts {
  double per_token = 0.0;
  double per_logit_row = 0.0;

  explicit MultiplyCounts(const GgufFile& file) {
    for (const GgufTensor& tensor : file.tensors()) {
      if (tensor.name.starts_with("blk.") && tensor.tensor.shape.rank() == 2) {
        per_token += static_cast<double>(tensor.tensor.shape.elems());
      }
    }
    const GgufTensor* output = file.find_tensor("output.weight");
    output = output != nullptr ? output : file.find_tensor("token_embd.weight");
    per_logit_row = output != nullptr ? static_cast<double>(output->tensor.shape.elems()) : 0.0;
  }
};

class Bench {
 public:
  Bench(Engine& engine, std::int32_t batch_tokens) : engine_(engine), batch_tokens_(batch_tokens), random_(1) {}

  /// Seconds that the test takes; filling the cache to its depth is not counted.
  double measure(const BenchTest& test) {
    StepRunner runner(engine_, test.sequences, test.length(), batch_tokens_);
    const std::int32_t vocab = engine_.model().config().vocab;
    for (std::int32_t sequence = 0; sequence < test.sequences && test.depth > 0; ++sequence) {
      runner.prefill(sequence, random_tokens(random_, vocab, test.depth), 0);
    }
    const auto prompt = random_tokens(random_, vocab, test.prompt);
    const auto start = std::chrono::steady_clock::now();
    runner.prefill(0, prompt, test.depth);
    for (std::int32_t step = 0; step < test.generated; ++step) {
      runner.decode_ahead(random_tokens(random_, vocab, test.sequences), test.depth + test.prompt + step);
    }
    runner.finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Engine& engine_;
  std::int32_t batch_tokens_;
  std::mt19937 random_;
};

/// The longest steps of the tests, each once: a piece of a prompt, and the last decode.
std::vector<StepShape> steps_of(const std::vector<BenchTest>& tests, std::int32_t batch_tokens) {
  std::map<std::string, StepShape> steps;
  const auto add = [&steps](StepShape step) { steps.insert_or_assign(step.name, step); };
  for (const BenchTest& test : tests) {
    if (test.prompt > 0) {
      add(step_of(1, std::min(test.prompt, batch_tokens), test.depth));
    }
    if (test.generated > 0) {
      add(step_of(test.sequences, 1, test.length() - 1));
    }
  }
  std::vector<StepShape> all;
  for (const auto& [name, step] : steps) {
    all.push_back(step);
  }
  return all;
}

BenchResult describe(const BenchTest& test, const Engine& engine, std::vector<double> seconds,
                     double memory_bytes_per_second) {
  const GgufFile& file = engine.file();
  BenchResult result;
  result.path = file.path().string();
  result.model = printable(file.string("general.architecture", "?")) + " " + main_format(file);
  result.model_bytes = file.file_bytes();
  result.parameters = parameter_count(file);
  const DeviceInfo& device = engine.device_info();
  result.backend = device.kind == DeviceKind::cpu ? "CPU" : device.kind == DeviceKind::hip ? "HIP" : "CUDA";
  result.device = describe_device(device, engine.threads());
  result.attention = attention_kernels(engine.model());
  result.threads = engine.threads();
  result.test = test.name();
  result.prompt_tokens = test.prompt;
  result.generated_tokens = test.generated;
  result.depth = test.depth;
  result.sequences = test.sequences;
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  result.seconds = std::move(seconds);
  result.memory_gb_per_second = memory_bytes_per_second / 1e9;
  if (test.prompt == 0) {
    result.weight_gb_per_second = test.generated / mean * static_cast<double>(engine.model().bytes_per_token()) / 1e9;
  }
  if (test.prompt > 0 || test.sequences > 1) {
    const MultiplyCounts counts(file);
    const double tokens = static_cast<double>(test.prompt + test.generated) * test.sequences;
    const double rows = (test.prompt > 0 ? 1.0 : 0.0) + static_cast<double>(test.generated) * test.sequences;
    result.gmac_per_second = (tokens * counts.per_token + rows * counts.per_logit_row) / mean / 1e9;
  }
  return result;
}

/// The device's memory read bandwidth in bytes per second, measured now.
double memory_speed(Engine& engine) {
  if (!engine.device_info().is_gpu()) {
    return read_bandwidth(engine.threads());
  }
  KernelRegistry registry;
  register_all_kernels(registry);
  const Ceilings ceilings = measure_gpu_ceilings(engine.device(), registry);
  ceiling_cache().store(engine.device_info(), ceilings);
  return ceilings.read_bytes_per_second;
}

int bench(const BenchFlags& flags) {
  const auto tests = plan_tests(flags);
  const auto threads = parse_integers(flags.threads, "--threads", 0, max_threads);
  EngineOptions options = flags.engine.options();
  const std::string path = find_model(flags.model, options);
  options.prefix_cache = false;
  for (const BenchTest& test : tests) {
    options.context_length = std::max(options.context_length, test.length());
    options.max_sequences = std::max(options.max_sequences, test.sequences);
    options.kv_tokens = std::max(options.kv_tokens, StepRunner::cache_tokens(test.sequences, test.length()));
  }
  options.max_batch_tokens = std::max(options.max_batch_tokens, options.max_sequences);
  options.model.max_batch_tokens = options.max_batch_tokens;
  options.model.max_logit_rows = std::max(options.model.max_logit_rows, options.max_sequences);
  std::vector<BenchResult> results;
  for (const std::int32_t count : threads) {
    options.threads = count;
    const auto engine = load_engine(path, options);  // gone before kernels are checked
    Progress progress("measuring");
    const double memory = memory_speed(*engine);
    Bench bench(*engine, options.max_batch_tokens);
    for (std::size_t i = 0; i < tests.size(); ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(tests.size());
      progress.update(share, tests[i].name() + ", warm-up");
      bench.measure(tests[i]);
      std::vector<double> seconds;
      for (std::int32_t repetition = 0; repetition < flags.repetitions; ++repetition) {
        progress.update(share, fmt::format("{}, {} of {}", tests[i].name(), repetition + 1, flags.repetitions));
        seconds.push_back(bench.measure(tests[i]));
      }
      results.push_back(describe(tests[i], *engine, std::move(seconds), memory));
    }
  }
  print_report(results, flags.json ? "json" : flags.format);
  options.threads = std::ranges::max(threads);
  const StepCheck check = check_steps(path, options, steps_of(tests, options.max_batch_tokens));
  fmt::print(stderr, "rocmforge: {}\n", check.summary());
  return print_step_check(check);
}

}  // namespace

Command bench_command() {
  auto flags = std::make_shared<BenchFlags>();
  Command command = {
      .name = "bench",
      .summary = "Measure speed beside what the memory allows",
      .notes =
          "The tests of llama-bench: ppN reads a prompt of N tokens, tgN generates N, each after a warm-up; random tokens "
          "go in, and the most likely next token is drawn and ignored. GB/s counts the weights that generation reads, "
          "once a step, beside the reading speed of the memory measured in the same run with the same threads. GMAC/s "
          "counts products with weights. With --batch-sizes B, B sequences generate at once and t/s is of all of them. "
          "Afterwards each kernel of these steps is called at their shapes, and every element is compared with an oracle "
          "(see bench step); one that is wrong makes the exit code 1.",
      .examples = {"rocmforge bench", "rocmforge bench model.gguf -p 128,512 -n 64 -t 1,2,4 -r 3",
                   "rocmforge bench model.gguf -p 0 -n 64 --batch-sizes 1,8 -d 0,1024",
                   "rocmforge bench model.gguf -pg 512,128 --json"},
      .action = [flags] { return bench(*flags); }};
  const auto list = [&](const char* names, std::string& target, const char* meaning) {
    command.options.push_back({names, &target, meaning, "LIST"});
  };
  add_model(command, flags->model);
  list("-p,--prompt,--n-prompt", flags->prompts, "Prompt lengths; 0: none");
  list("-n,--generate,--n-gen", flags->generations, "Tokens to generate; 0: none");
  command.options.push_back({.names = "--pg",
                             .target = &flags->pairs,
                             .meaning = "Read PP tokens, then generate TG (may be repeated)",
                             .value = "PP,TG",
                             .also = "-pg"});
  list("-d,--depth,--n-depth", flags->depths, "Tokens in the context before the test");
  list("--batch-sizes", flags->batch_sizes, "Sequences that generate at once");
  command.options.push_back({.names = "-r,--repetitions",
                             .target = &flags->repetitions,
                             .meaning = "Times each test is measured",
                             .range = {.least = 1, .most = 1000}});
  command.options.push_back(
      {.names = "-o,--output", .target = &flags->format, .meaning = "Format", .choices = {"md", "json", "csv"}});
  command.options.push_back(json_option(flags->json, "The same as --output json"));
  command.options.back().excludes = {"--output"};
  flags->engine.add_to(command);
  Option& threads = command.option("--threads");  // here a list
  threads.target = &flags->threads;
  threads.value = "LIST";
  threads.meaning += "; 0: all processors";
  threads.range = {};
  command.drop("--context");  // the tests define its length
  command.commands = {bench_attention_command(), bench_matmul_command(), bench_step_command()};
  return command;
}

}  // namespace rocmforge::app
