#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernel_bench.h"
#include "bench/timed_attention.h"
#include "comma_list.h"
#include "command.h"
#include "flags.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

/// What is measured where nothing else is named. On a CPU every element is compared with the scalar reference, so that
/// shapes are small.
struct DefaultWork {
  const char* prefill;
  const char* decode;
  std::int32_t prefill_tokens;  ///< short prompts in so many sequences, to fill a GPU
};
constexpr DefaultWork gpu_work{"512,2048,8192", "1x512,1x4096,1x32768,1x131072,16x4096,64x4096,64x16384", 16384};
constexpr DefaultWork cpu_work{"512", "1x512,1x4096,16x4096", 512};

struct AttentionFlags : KernelBenchFlags {
  std::string heads = "32:8";
  std::string head_dims = "128";
  std::string prefill;
  std::string decode;
  KvTypeFlags kv_types;
  bool full = false;
};

std::vector<std::int32_t> parse_pair(const std::string& text, char separator, const char* option, const char* example) {
  const std::size_t at = text.find(separator);
  if (at == std::string::npos) {
    throw UsageError(fmt::format("{}: '{}' is not of the form {}", option, text, example));
  }
  return {parse_integers(text.substr(0, at), option, 1, 1 << 22)[0],
          parse_integers(text.substr(at + 1), option, 1, 1 << 22)[0]};
}

std::vector<AttentionWork> parse_work(const AttentionFlags& flags, bool on_gpu) {
  const DefaultWork& usual = on_gpu ? gpu_work : cpu_work;
  const std::string prefill = flags.prefill.empty() ? usual.prefill : flags.prefill;
  const std::string decode = flags.decode.empty() ? usual.decode : flags.decode;
  std::vector<AttentionWork> works;
  if (prefill != "0") {
    for (const std::int32_t length : parse_integers(prefill, "--prefill", 1, 1 << 20)) {
      works.push_back({std::max(1, usual.prefill_tokens / length), length, length});
    }
  }
  if (decode != "0") {
    for (const std::string& part : split_at_commas(decode)) {
      const auto pair = parse_pair(part, 'x', "--decode", "BATCHxCONTEXT, as in 16x4096");
      works.push_back({pair[0], 1, pair[1]});
    }
  }
  return works;
}

std::string work_text(const AttentionWork& work, bool causal) {
  return work.q_len > 1 ? fmt::format("prefill {}{}", work.q_len, causal ? "" : " full")
                        : fmt::format("decode @ {}", work.kv_len);
}

/// Times one backend on one piece of work and adds its line.
void measure_backend(KernelBench& bench, const AttentionBackend& kernel, AttentionInputs& inputs, Report& report) {
  const Attention::Spec& spec = inputs.spec();
  const AttentionWork& work = inputs.work();
  TimedAttention calls(bench.device(), bench.context(), kernel, inputs);
  const CheckedTime found = bench.check_and_time(calls);
  const double reads = inputs.kv_bytes() / found.seconds;
  const double flops = inputs.flops() / found.seconds;
  report.table.add({work_text(work, spec.causal), fmt::format("{}", work.sequences),
                    fmt::format("{}:{}", spec.q_heads, spec.kv_heads), fmt::format("{}", spec.head_dim),
                    std::string(kernel.name()), fmt::format("{:.1f}", found.seconds * 1e6),
                    fmt::format("{:.1f}", flops / 1e12), percent_of(flops, bench.ceilings().matrix_flops_per_second),
                    fmt::format("{:.0f}", reads / 1e9), percent_of(reads, bench.ceilings().read_bytes_per_second),
                    error_text(found.difference)});
  report.note_if_wrong(found.difference, fmt::format("attention {} ({}), {}, {} sequences", kernel.name(), to_string(spec),
                                                     work_text(work, spec.causal), work.sequences));
}

/// Every wanted kernel on one piece of work. Kernels with the same layout share inputs and what is expected.
void measure_all(KernelBench& bench, const AttentionFlags& flags, const Attention::Spec& spec, const AttentionWork& work,
                 Report& report) {
  const DeviceInfo& device = bench.device().info();
  std::unique_ptr<AttentionInputs> inputs;
  for (const auto& kernel : bench.registry().all<Attention>()) {
    const bool here = kernel->device() == device.kind && !bench.left_out(Attention::name, *kernel);
    // The composed path stores all scores: for long inputs only that memory would be measured.
    const bool sensible = kernel->name() != "composed" || std::int64_t{work.q_len} * work.kv_len <= std::int64_t{1} << 22;
    const bool wanted = flags.kernel.empty() ? !is_oracle(kernel->priority()) : is_named(kernel->name(), flags.kernel);
    if (!here || !sensible || !wanted || !kernel->supports(spec, device).ok) {
      continue;
    }
    if (const KvLayout layout = kernel->layout(spec); inputs == nullptr || inputs->layout() != layout) {
      inputs.reset();
      inputs = std::make_unique<AttentionInputs>(bench.device(), bench.context(), bench.registry(), spec, layout, work);
    }
    measure_backend(bench, *kernel, *inputs, report);
  }
}

int bench_attention(const AttentionFlags& flags) {
  const auto heads = parse_pair(flags.heads, ':', "--heads", "Q:KV, as in 32:8");
  const auto head_dims = parse_integers(flags.head_dims, "--head-dim", 1, 1024);
  static_cast<void>(parse_work(flags, true));  // wrong flags are named before a device is opened
  const KvTypes kv_types = flags.kv_types.types();
  const std::vector<AvoidedKernel> without = avoided_kernels(flags.without);
  KernelBench bench(flags.device, flags.kernel_folder, flags.threads);
  bench.leave_out(without);
  const auto works = parse_work(flags, bench.device().is_gpu());
  Report report(Table({"work", ">sequences", "heads", ">head_dim", "kernel", ">us", ">TFLOP/s", ">% of products",
                       ">GB/s of KV", ">% of reads", ">error"}));
  for (const std::int32_t head_dim : head_dims) {
    for (const AttentionWork& work : works) {
      const Attention::Spec spec{.q_heads = heads[0],
                                 .kv_heads = heads[1],
                                 .head_dim = head_dim,
                                 .kv_dtype = kv_types,
                                 .causal = !flags.full,
                                 .most_rows = work.q_len == 1 ? 1 : 0};
      measure_all(bench, flags, spec, work, report);
    }
  }
  return report.print(bench.headline() + "; KV " + name(kv_types), flags.json);
}

}  // namespace

Command bench_attention_command() {
  auto flags = std::make_shared<AttentionFlags>();
  Command command = {
      .name = "attention",
      .summary = "Time each attention kernel, checked in the same run",
      .notes =
          "Over a paged cache whose blocks lie in random order. A prefill of N tokens runs as many sequences as make "
          "16,384 tokens on a GPU. Decode walks through as many caches as the L2 cache cannot hold. Before the timed calls "
          "each of these caches is used once with a poisoned output, and every element is compared with the plain kernel of "
          "the device, on a CPU with the scalar reference; so is what the last timed call left. A kernel that is wrong "
          "makes the exit code 1.",
      .examples = {"rocmforge bench attention --heads 32:8 --head-dim 64,128 --prefill 2048 --decode 1x4096,64x4096"},
      .options = {{"--heads", &flags->heads, "Query and KV heads", "Q:KV"},
                  {"--head-dim", &flags->head_dims, "Elements of a head", "LIST"},
                  {"--prefill", &flags->prefill, "Lengths of prompts; 0: none; without it a list for the device", "LIST"},
                  {"--decode", &flags->decode, "Sequences and the tokens each has in its cache; 0: none; without it a list",
                   "BxN,..."},
                  {"--full", &flags->full, "Without the causal mask"}},
      .action = [flags] { return bench_attention(*flags); }};
  flags->kv_types.add_to(command);
  flags->add_to(command);
  return command;
}

}  // namespace rocmforge::app
