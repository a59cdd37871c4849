#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernel_bench.h"
#include "bench/timed_matmul.h"
#include "comma_list.h"
#include "command.h"
#include "flags.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

/// Where nothing else is named. On a CPU every element is compared with the scalar reference, so that calls are small.
constexpr const char* gpu_tokens = "1,8,512,2048";
constexpr const char* cpu_tokens = "1,8,64";

struct MatmulFlags : KernelBenchFlags {
  std::string formats = "q4_0,q4_k,q5_k,q6_k,q8_0,mxfp4,f16,bf16";
  std::string shapes = "4096x4096,14336x4096,4096x14336";
  std::string tokens;
};

struct Shape {
  std::int64_t n = 0;
  std::int64_t k = 0;
};

std::vector<DType> parse_formats(const std::string& text) {
  std::vector<DType> formats;
  for (const std::string& part : split_at_commas(text)) {
    const auto type = dtype_from_name(part);
    if (!type || !info(*type).computes) {
      throw UsageError(fmt::format("--formats: there is no product with '{}'", part));
    }
    formats.push_back(*type);
  }
  return formats;
}

std::vector<Shape> parse_shapes(const std::string& text) {
  std::vector<Shape> shapes;
  for (const std::string& part : split_at_commas(text)) {
    const std::size_t cross = part.find('x');
    if (cross == std::string::npos) {
      throw UsageError(fmt::format("--shapes: '{}' is not NxK, as in 14336x4096", part));
    }
    shapes.push_back({parse_integers(part.substr(0, cross), "--shapes", 1, 1 << 20)[0],
                      parse_integers(part.substr(cross + 1), "--shapes", 1, 1 << 20)[0]});
  }
  return shapes;
}

/// Times one kernel with one weight for each number of tokens, and adds a line for each.
void measure_product(KernelBench& bench, const MatmulKernel& kernel, MatmulInputs& inputs,
                     const std::vector<std::int32_t>& token_counts, Report& report) {
  const Matmul::Spec& spec = inputs.spec();
  const WeightCopies weights(bench.device(), bench.context(), kernel, inputs);
  for (const std::int32_t tokens : token_counts) {
    TimedMatmul calls(bench.device(), bench.context(), kernel, inputs, weights, tokens);
    const CheckedTime found = bench.check_and_time(calls);
    const double reads = static_cast<double>(weights.size_bytes()) / found.seconds;
    const double flops = 2.0 * static_cast<double>(tokens * spec.n) * static_cast<double>(spec.k) / found.seconds;
    report.table.add({std::string(name(spec.weight)), fmt::format("{}x{}", spec.n, spec.k), fmt::format("{}", tokens),
                      std::string(kernel.name()), fmt::format("{:.1f}", found.seconds * 1e6),
                      fmt::format("{:.0f}", reads / 1e9), percent_of(reads, bench.ceilings().read_bytes_per_second),
                      fmt::format("{:.1f}", flops / 1e12), percent_of(flops, bench.ceilings().matrix_flops_per_second),
                      error_text(found.difference)});
    report.note_if_wrong(found.difference, fmt::format("matmul {} ({}), {} tokens", kernel.name(), to_string(spec), tokens));
  }
}

int bench_matmul(const MatmulFlags& flags) {
  const auto formats = parse_formats(flags.formats);
  const auto shapes = parse_shapes(flags.shapes);
  const auto wanted_tokens = [&flags](bool on_gpu) {
    return parse_integers(!flags.tokens.empty() ? flags.tokens : on_gpu ? gpu_tokens : cpu_tokens, "--tokens", 1, 1 << 16);
  };
  static_cast<void>(wanted_tokens(true));  // wrong flags are named before a device is opened
  const std::vector<AvoidedKernel> without = avoided_kernels(flags.without);
  KernelBench bench(flags.device, flags.kernel_folder, flags.threads);
  bench.leave_out(without);
  const DeviceInfo& device = bench.device().info();
  const std::vector<std::int32_t> tokens = wanted_tokens(device.is_gpu());
  Report report(
      Table({"format", "NxK", ">tokens", "kernel", ">us", ">GB/s", ">% of reads", ">TFLOP/s", ">% of products", ">error"}));
  for (const DType format : formats) {
    for (const Shape& shape : shapes) {
      const Matmul::Spec spec{format, shape.n, shape.k};
      MatmulInputs inputs(bench.device(), bench.context(), bench.registry(), spec, std::ranges::max(tokens));
      for (const auto& kernel : bench.registry().all<Matmul>()) {
        const bool wanted = flags.kernel.empty() ? !is_oracle(kernel->priority()) : is_named(kernel->name(), flags.kernel);
        if (wanted && kernel->device() == device.kind && kernel->supports(spec, device).ok &&
            !bench.left_out(Matmul::name, *kernel)) {
          measure_product(bench, *kernel, inputs, tokens, report);
        }
      }
    }
  }
  return report.print(bench.headline(), flags.json);
}

}  // namespace

Command bench_matmul_command() {
  auto flags = std::make_shared<MatmulFlags>();
  Command command = {.name = "matmul",
                     .summary = "Time each matrix product kernel, checked in the same run",
                     .notes =
                         "Weights are read from memory: enough copies are used in turn that none is in a cache. Before the "
                         "timed calls each copy is used once with a poisoned output, and every element is compared with "
                         "the plain kernel of the device, on a CPU with the scalar reference; so is what the last timed "
                         "call left. A kernel that is wrong makes the exit code 1.",
                     .examples = {"rocmforge bench matmul --formats q4_k,f16 --shapes 14336x4096 --tokens 1,8,2048"},
                     .options = {{"--formats", &flags->formats, "Formats of the weights", "LIST"},
                                 {"--shapes", &flags->shapes, "Rows x columns of the weights", "LIST"},
                                 {"--tokens", &flags->tokens, "Tokens of a call; without it a list for the device", "LIST"}},
                     .action = [flags] { return bench_matmul(*flags); }};
  flags->add_to(command);
  return command;
}

}  // namespace rocmforge::app
