#include "flags.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include "kernels/register_all.h"
#include "progress.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

void check_range(std::string_view flag, std::int32_t value, std::int32_t least, std::int32_t most) {
  if (value < least || value > most) {
    throw UsageError(fmt::format("{} is {}, must be {} to {}", flag, value, least, most));
  }
}

void check_at_least(std::string_view flag, std::int32_t value, std::int32_t least, std::string_view meaning) {
  if (value < least) {
    throw UsageError(fmt::format("{} is {}, must be at least {}{}", flag, value, least, meaning));
  }
}

template <class Op>
void check_kernel(std::string_view flag, const std::string& wanted, const KernelRegistry& registry) {
  std::string known;
  for (const auto& kernel : registry.all<Op>()) {
    if (is_named(kernel->name(), wanted)) {
      return;
    }
    const std::string name(kernel->name());
    if ((", " + known + ",").find(", " + name + ",") == std::string::npos) {  // the same for HIP and CUDA
      known += (known.empty() ? "" : ", ") + name;
    }
  }
  throw UsageError(fmt::format("{}: there is no {} kernel '{}'; there are {}", flag, Op::name, wanted, known));
}

std::pair<std::int32_t, float> parse_bias(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::int32_t id = -1;
  float bias = std::numeric_limits<float>::quiet_NaN();
  if (equals != std::string::npos) {
    const auto [id_end, id_error] = std::from_chars(text.data(), text.data() + equals, id);
    const char* end = text.data() + text.size();
    const char* begin = text.data() + equals + 1 + (text.compare(equals + 1, 1, "+") == 0 ? 1 : 0);
    const auto [bias_end, bias_error] = std::from_chars(begin, end, bias);
    if (id_error != std::errc() || id_end != text.data() + equals || bias_error != std::errc() || bias_end != end) {
      id = -1;
    }
  }
  if (id < 0 || std::isnan(bias)) {
    throw UsageError(fmt::format("--logit-bias: '{}' is not ID=VALUE, as in 42=-inf", text));
  }
  return {id, bias};
}

}  // namespace

void EngineFlags::add_to(CLI::App& command) {
  const std::string group = "Model";
  command
      .add_option("-c,--context,--ctx-size", context_,
                  fmt::format("Positions of the context; 0: the model's, at most {}", default_context_limit))
      ->capture_default_str()
      ->group(group);
  command.add_option("-b,--batch,--batch-tokens", batch_, "Tokens computed in one step")
      ->capture_default_str()
      ->group(group);
  command.add_option("-t,--threads", threads_, "Threads; 0: all processors")->capture_default_str()->group(group);
  command.add_option("--kv-type", kv_type_, "Format of the KV cache")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--device", device_, "auto (the first GPU with kernels, else the CPU), cpu, hip, cuda, cuda:1")
      ->envname("ROCMFORGE_DEVICE")
      ->capture_default_str()
      ->group(group);
  command.add_option("--kernel-dir", kernel_dir_, "GPU code objects from this folder in place of those in the program")
      ->envname("ROCMFORGE_KERNEL_DIR")
      ->type_name("DIR")
      ->group(group);
  command.add_flag("--no-graph", no_graph_, "GPU: launch every kernel of every step instead of replaying recorded steps")
      ->group(group);
  command.add_flag("--no-overlap", no_overlap_, "GPU: start no kernel before the one before it has ended")->group(group);
  command.add_option("--isa", isa_, "CPU: at most this instruction set")
      ->check(CLI::IsMember({"generic", "neon", "avx2", "avx512"}))
      ->group(group);
  command.add_option("--attention", attention_, "This attention kernel only (names: rocmforge devices)")->group(group);
  command.add_option("--matmul", matmul_, "This matrix product kernel only")->group(group);
}

EngineOptions EngineFlags::options() const {
  check_at_least("--context", context_, 0, " (0: the model's)");
  check_range("--batch", batch_, 1, 65536);
  check_range("--threads", threads_, 0, max_threads);
  if (!attention_.empty() || !matmul_.empty()) {
    KernelRegistry registry;
    register_all_kernels(registry);
    if (!attention_.empty()) {
      check_kernel<Attention>("--attention", attention_, registry);
    }
    if (!matmul_.empty()) {
      check_kernel<Matmul>("--matmul", matmul_, registry);
    }
  }
  EngineOptions options;
  options.context_length = context_;
  options.max_batch_tokens = batch_;
  options.threads = threads_;
  options.isa = isa_;
  options.device = device_;
  options.kernel_dir = kernel_dir_;
  options.model.graphs = !no_graph_;
  options.model.overlap = !no_overlap_;
  options.model.kv_dtype = *dtype_from_name(kv_type_);
  options.model.max_batch_tokens = batch_;
  options.model.attention = attention_;
  options.model.matmul = matmul_;
  return options;
}

void GenerationFlags::add_to(CLI::App& command) {
  command.add_option("--system", system_, "System message")->type_name("TEXT");
  command.add_option("-n,--max-tokens", max_tokens_, "Tokens to generate at most; -1: until the model ends")
      ->capture_default_str();
  command.add_option("--stop", stop_, "End the answer at this text (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command.add_flag("--ignore-eos", ignore_eos_, "Go on after an end-of-generation token");
  command.add_flag("--context-shift", context_shift_, "When the context is full drop the older half and go on");
  const std::string group = "Sampling";
  auto number = [&](const char* flag, auto& value, const char* meaning) {
    return command.add_option(flag, value, meaning)->capture_default_str()->group(group);
  };
  auto* temperature = number("--temp", sampling_.temperature, "Temperature; 0: greedy");
  command.add_flag("--greedy", greedy_, "Always the most probable token")->excludes(temperature)->group(group);
  number("--top-k", sampling_.top_k, "The K most probable tokens; 0: off");
  number("--top-p", sampling_.top_p, "The most probable tokens that make up P; 1: off");
  number("--min-p", sampling_.min_p, "Tokens at least P times as probable as the best; 0: off");
  number("--typical", sampling_.typical_p, "Tokens closest to the expected surprise that make up P; 1: off");
  number("--repeat-penalty", sampling_.repeat_penalty, "Divide the logits of recent tokens; 1: off");
  number("--repeat-last-n", sampling_.repeat_last_n, "Tokens that count as recent; -1: all");
  number("--frequency-penalty", sampling_.frequency_penalty, "Subtract per occurrence; 0: off");
  number("--presence-penalty", sampling_.presence_penalty, "Subtract once; 0: off");
  command.add_option("--logit-bias", logit_bias_, "Add to a token's logit (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("ID=VALUE")
      ->group(group);
  number("--seed", seed_, "Same seed, same answer; -1: random");
}

void GenerationFlags::validate() const { static_cast<void>(request(std::numeric_limits<std::int32_t>::max())); }

Request GenerationFlags::request(std::int32_t vocab) const {
  Request request;
  request.sampling = sampling_;
  if (greedy_) {
    request.sampling.temperature = 0.0f;
  }
  if (seed_ < -1) {
    throw UsageError(fmt::format("--seed is {}, must be at least 0, or -1 for a random one", seed_));
  }
  if (seed_ >= 0) {
    request.sampling.seed = static_cast<std::uint64_t>(seed_);
  }
  for (const std::string& text : logit_bias_) {
    const auto [id, bias] = parse_bias(text);
    if (id >= vocab) {
      throw UsageError(fmt::format("--logit-bias: {} is no token, the vocabulary has {}", id, vocab));
    }
    request.sampling.logit_bias[id] = bias;
  }
  if (const std::string problem = request.sampling.validate(); !problem.empty()) {
    throw UsageError(problem);
  }
  if (max_tokens_ != -1) {
    check_at_least("--max-tokens", max_tokens_, 1, ", or -1 for no limit");
  }
  for (const std::string& text : stop_) {
    if (text.empty()) {
      throw UsageError("--stop: the text is empty");
    }
  }
  request.max_tokens = max_tokens_;
  request.stop = stop_;
  request.ignore_eos = ignore_eos_;
  request.context_policy = context_shift_ ? ContextPolicy::shift : ContextPolicy::stop;
  return request;
}

std::string describe_device(const DeviceInfo& device, int threads) {
  return device.is_gpu() ? fmt::format("{} ({}:{}, {})", device.name, name(device.kind), device.index, device.architecture)
                         : fmt::format("CPU ({}, {} threads)", name(device.cpu_isa), threads);
}

std::unique_ptr<Engine> load_engine(const std::string& path, EngineOptions options) {
  Progress progress("loading " + std::filesystem::path(path).filename().string());
  options.model.progress = [&progress](double fraction) { progress.update(fraction); };
  return load_model(path, options);
}

}  // namespace rocmforge::app
