#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "checks/difference.h"
#include "comma_list.h"
#include "command.h"
#include "flags.h"
#include "kernel_bench.h"
#include "tensor/quant/dequantize.h"
#include "tensor/random_rows.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct MatmulFlags : KernelBenchFlags {
  std::string formats = "q4_0,q4_k,q5_k,q6_k,q8_0,mxfp4,f16,bf16";
  std::string shapes = "4096x4096,14336x4096,4096x14336";
  std::string tokens = "1,8,512,2048";
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

/// One weight in enough copies that each call reads it from memory and not from a cache, and inputs for the most tokens.
class MatmulProblem {
 public:
  MatmulProblem(KernelBench& bench, const MatmulKernel& kernel, DType format, const Shape& shape, std::int64_t tokens)
      : bench_(bench), kernel_(kernel), spec_{format, shape.n, shape.k}, random_(1) {
    pattern_ = random_rows(format, std::min<std::int64_t>(shape.n, pattern_rows), shape.k, random_);
    const std::size_t file_bytes = row_bytes(format, shape.k) * static_cast<std::size_t>(shape.n);
    weight_bytes_ = std::max(file_bytes, kernel.packed_bytes(spec_));
    const std::size_t cold =
        std::max<std::size_t>(std::size_t{256} << 20, static_cast<std::size_t>(4 * bench.device().info().l2_bytes));
    copies_ = static_cast<int>(std::clamp<std::size_t>(cold / weight_bytes_ + 1, 2, 64));
    make_weights(file_bytes);
    x_.resize(static_cast<std::size_t>(tokens * shape.k));
    std::ranges::generate(x_, [this] { return random_.uniform(-1.0f, 1.0f); });
    x_on_device_ = bench.upload(x_.data(), x_.size() * sizeof(float));
    out_ = bench.device().allocate(static_cast<std::size_t>(tokens * shape.n) * sizeof(float), "products");
    workspace_ = bench.device().allocate(kernel.workspace_bytes(tokens, shape.k) + 1, "products");
  }

  double seconds(std::int64_t tokens) {
    return bench_.median_seconds([&](int copy) { run(tokens, copy); }, copies_);
  }

  /// Relative error of some rows of the output for `tokens` tokens.
  double error(std::int64_t tokens) {
    run(tokens, 0);
    if (bench_.device().is_gpu()) {
      bench_.device().stream().synchronize();
    }
    std::vector<float> out(static_cast<std::size_t>(tokens * spec_.n));
    bench_.device().download(out.data(), out_.data(), out.size() * sizeof(float));
    double difference = 0.0;
    double norm = 0.0;
    std::vector<float> weights(static_cast<std::size_t>(spec_.k));
    // With fewer outputs, the relative error would differ too much from case to case.
    constexpr std::int64_t sampled_outputs = 512;
    const std::int64_t token_step = std::max<std::int64_t>(1, tokens / 8);
    const std::int64_t samples = sampled_outputs / (1 + (tokens - 1) / token_step);
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const std::int64_t row = random_.below(static_cast<std::int32_t>(spec_.n));
      const std::size_t bytes = row_bytes(spec_.weight, spec_.k);
      dequantize_row(spec_.weight, pattern_.data() + static_cast<std::size_t>(row % pattern_rows) * bytes, weights.data(),
                     spec_.k);
      for (std::int64_t token = 0; token < tokens; token += token_step) {
        double expected = 0.0;
        for (std::int64_t i = 0; i < spec_.k; ++i) {
          expected += double{weights[static_cast<std::size_t>(i)]} * x_[static_cast<std::size_t>(token * spec_.k + i)];
        }
        const double actual = out[static_cast<std::size_t>(token * spec_.n + row)];
        difference += (actual - expected) * (actual - expected);
        norm += expected * expected;
      }
    }
    return std::sqrt(difference / norm);
  }

  [[nodiscard]] std::size_t weight_bytes() const { return weight_bytes_; }

 private:
  static constexpr std::int64_t pattern_rows = 256;

  void make_weights(std::size_t file_bytes) {
    if (kernel_.packed_bytes(spec_) == 0) {
      for (int copy = 0; copy < copies_; ++copy) {
        weights_.push_back(bench_.patterned(pattern_, file_bytes));
      }
      return;
    }
    std::vector<std::byte> rows(file_bytes);
    for (std::size_t i = 0; i < file_bytes; i += pattern_.size()) {
      std::copy_n(pattern_.begin(), std::min(pattern_.size(), file_bytes - i),
                  rows.begin() + static_cast<std::ptrdiff_t>(i));
    }
    // Kernels may require alignment: pack into memory of the CPU device, as a model's loader does.
    Device host;
    const DeviceBuffer packed = host.allocate(kernel_.packed_bytes(spec_), "a packed weight");
    kernel_.pack(spec_, rows.data(), packed.data(), bench_.context());
    for (int copy = 0; copy < copies_; ++copy) {
      weights_.push_back(bench_.upload(packed.data(), packed.size_bytes()));
    }
  }

  void run(std::int64_t tokens, int copy) {
    const MatmulOutput output{
        spec_.weight, weights_[static_cast<std::size_t>(copy)].data(), spec_.n, nullptr, out_.as<float>(), spec_.n, false};
    kernel_.run({x_on_device_.as<const float>(), tokens, spec_.k, spec_.k, std::span(&output, 1), workspace_.data()},
                bench_.context());
  }

  KernelBench& bench_;
  const MatmulKernel& kernel_;
  Matmul::Spec spec_;
  Random random_;
  std::vector<std::byte> pattern_;
  std::size_t weight_bytes_ = 0;
  int copies_ = 0;
  std::vector<DeviceBuffer> weights_;
  std::vector<float> x_;
  DeviceBuffer x_on_device_;
  DeviceBuffer out_;
  DeviceBuffer workspace_;
};

std::string share(double value, double ceiling) {
  return ceiling > 0.0 ? fmt::format("{:.1f}", 100.0 * value / ceiling) : "";
}

int bench_matmul(const MatmulFlags& flags) {
  const auto formats = parse_formats(flags.formats);
  const auto shapes = parse_shapes(flags.shapes);
  const auto tokens = parse_integers(flags.tokens, "--tokens", 1, 1 << 16);
  const std::vector<AvoidedKernel> without = avoided_kernels(flags.without);
  KernelBench bench(flags.device, flags.kernel_folder, flags.threads);
  bench.leave_out(without);
  Table table({"format", "NxK", ">tokens", "kernel", ">us", ">GB/s", ">% of reads", ">TFLOP/s", ">% of products", ">error"});
  bool wrong = false;
  for (const DType format : formats) {
    for (const Shape& shape : shapes) {
      const Matmul::Spec spec{format, shape.n, shape.k};
      for (const auto& kernel : bench.registry().all<Matmul>()) {
        if (kernel->device() != bench.device().info().kind || !kernel->supports(spec, bench.device().info()).ok ||
            bench.left_out(Matmul::name, *kernel) ||
            (flags.kernel.empty() ? is_oracle(kernel->priority()) : !is_named(kernel->name(), flags.kernel))) {
          continue;
        }
        MatmulProblem problem(bench, *kernel, format, shape, std::ranges::max(tokens));
        for (const std::int32_t count : tokens) {
          const double error = problem.error(count);
          wrong = wrong || !(error <= type_tolerance(format));
          const double seconds = problem.seconds(count);
          const double reads = static_cast<double>(problem.weight_bytes()) / seconds;
          const double flops = 2.0 * static_cast<double>(count * shape.n) * static_cast<double>(shape.k) / seconds;
          table.add({std::string(name(format)), fmt::format("{}x{}", shape.n, shape.k), fmt::format("{}", count),
                     std::string(kernel->name()), fmt::format("{:.1f}", seconds * 1e6), fmt::format("{:.0f}", reads / 1e9),
                     share(reads, bench.ceilings().read_bytes_per_second), fmt::format("{:.1f}", flops / 1e12),
                     share(flops, bench.ceilings().matrix_flops_per_second),
                     fmt::format("{:.1e}{}", error, error <= type_tolerance(format) ? "" : " WRONG")});
        }
      }
    }
  }
  print_measurements(bench.headline(), table, !wrong, flags.json);
  return wrong ? 1 : 0;
}

}  // namespace

Command bench_matmul_command() {
  auto flags = std::make_shared<MatmulFlags>();
  Command command = {
      .name = "matmul",
      .summary = "Time each matrix product kernel, checked in the same run",
      .notes =
          "Weights are read from memory: enough copies are used in turn that none is in a cache. Each kernel's output is "
          "first compared with the dequantised product in f64; a kernel that is wrong makes the exit code 1.",
      .examples = {"rocmforge bench matmul --formats q4_k,f16 --shapes 14336x4096 --tokens 1,8,2048"},
      .options = {{"--formats", &flags->formats, "Formats of the weights", "LIST"},
                  {"--shapes", &flags->shapes, "Rows x columns of the weights", "LIST"},
                  {"--tokens", &flags->tokens, "Tokens of a call", "LIST"}},
      .action = [flags] { return bench_matmul(*flags); }};
  flags->add_to(command);
  return command;
}

}  // namespace rocmforge::app
