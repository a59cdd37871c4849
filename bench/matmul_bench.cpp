#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "ceilings.h"
#include "kernels/matmul_data.h"

namespace rocmforge::bench {
namespace {

struct Shape {
  std::int64_t n;
  std::int64_t k;
};

struct Options {
  int threads = available_processors();
  std::int64_t tokens = 128;
  std::string kernel;
  std::vector<std::string> formats = {"q4_k", "q6_k", "q8_0", "q4_0", "f16"};
  std::vector<std::string> shapes = {"2048x2048", "5632x2048", "2048x5632", "32000x2048"};
  int rounds = 12;
};

/// "5632x2048" is n x k.
Shape parse_shape(const std::string& text) {
  const auto cross = text.find('x');
  if (cross == std::string::npos) {
    throw Error("shape '" + text + "' is not of the form NxK");
  }
  return {std::stoll(text.substr(0, cross)), std::stoll(text.substr(cross + 1))};
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The best of everything measured so far: other programs on the machine can only lower a figure.
struct Ceilings {
  double read = 0;
  double int8 = 0;
  double f32 = 0;
};

class Bench {
 public:
  Bench(const Options& options, const MatmulKernel& kernel) : options_(options), kernel_(kernel), memory_(256u << 20) {
    std::ranges::fill(memory_, std::byte{1});
  }

  void run() {
    for (const std::string& format : options_.formats) {
      const auto type = dtype_from_name(format);
      if (!type || !info(*type).computes) {
        throw Error("there is no kernel for format " + format);
      }
      for (const std::string& shape : options_.shapes) {
        rows_.push_back(measure(*type, parse_shape(shape)));
      }
    }
    print();
  }

 private:
  struct Row {
    DType type;
    Shape shape;
    double packed_bytes;
    double decode_seconds;
    double prefill_seconds;
    double error;
  };

  void measure_ceilings() {
    ceilings_.read = std::max(ceilings_.read, read_bandwidth(memory_, pool_));
    ceilings_.int8 = std::max(ceilings_.int8, int8_peak(pool_));
    ceilings_.f32 = std::max(ceilings_.f32, f32_peak(pool_));
  }

  /// The fastest of some calls; `copies` of the weight are used in turn so that none is in a cache.
  double fastest(std::vector<matmul_test::PackedWeight>& copies, const Shape& shape, std::int64_t tokens, int rounds) {
    const auto x = matmul_test::random_input(tokens * shape.k, 2);
    std::vector<float> out(static_cast<std::size_t>(tokens * shape.n));
    matmul_test::AlignedBytes workspace(kernel_.workspace_bytes(tokens, shape.k));
    double best = 1e9;
    for (int round = 0; round < rounds; ++round) {
      for (auto& weight : copies) {
        const MatmulOutput output = weight.output(out.data(), shape.n);
        const double start = seconds();
        kernel_.run({x.data(), tokens, shape.k, shape.k, {&output, 1}, workspace.data()}, context_);
        best = std::min(best, seconds() - start);
      }
    }
    return best;
  }

  /// Largest error of some rows for one token, relative to the sum of absolute products.
  double check(matmul_test::PackedWeight& weight, DType type, const std::vector<std::byte>& rows, const Shape& shape) {
    const std::int64_t checked_rows = std::min<std::int64_t>(64, shape.n);
    const auto x = matmul_test::random_input(shape.k, 3);
    std::vector<float> out(static_cast<std::size_t>(shape.n), std::numeric_limits<float>::quiet_NaN());
    const MatmulOutput output = weight.output(out.data(), shape.n);
    matmul_test::run(kernel_, x.data(), 1, shape.k, shape.k, {&output, 1}, context_);
    const auto values = matmul_test::dequantised(type, rows, checked_rows, shape.k);
    const auto expected =
        matmul_test::expected_product(matmul_test::as_read_by(kernel_, type, x), values, 1, checked_rows, shape.k);
    double worst = 0;
    for (std::size_t i = 0; i < expected.y.size(); ++i) {
      const double error = std::fabs(out[i] - expected.y[i]) / expected.magnitude[i];
      worst = std::isnan(error) ? 1.0 : std::max(worst, error);
    }
    return worst;
  }

  Row measure(DType type, const Shape& shape) {
    measure_ceilings();
    const auto rows = matmul_test::random_weight(type, shape.n, shape.k, 1);
    const double bytes = static_cast<double>(std::max(kernel_.packed_bytes({type, shape.n, shape.k}), rows.size()));
    std::vector<matmul_test::PackedWeight> copies;
    const auto count = static_cast<std::size_t>(std::max(1.0, std::ceil(128e6 / bytes)));
    for (std::size_t i = 0; i < count; ++i) {
      copies.emplace_back(kernel_, type, rows, shape.n, shape.k, context_);
    }
    Row row{type, shape, bytes, 0, 0, check(copies.front(), type, rows, shape)};
    row.decode_seconds = fastest(copies, shape, 1, options_.rounds);
    copies.erase(copies.begin() + 1, copies.end());
    row.prefill_seconds = fastest(copies, shape, options_.tokens, options_.rounds);
    return row;
  }

  void print() const {
    fmt::print("{} on {}, {} threads\n", kernel_.name(), cpu_device_info().name, options_.threads);
    fmt::print("ceilings: read {:.1f} GB/s, 8-bit dot product {:.0f} GMAC/s, f32 {:.0f} GMAC/s\n", ceilings_.read / 1e9,
               ceilings_.int8 / 1e9, ceilings_.f32 / 1e9);
    fmt::print("{:<7}{:>13}{:>9}{:>11}{:>9}{:>8}{:>13}{:>8}{:>10}\n", "format", "n x k", "bits/w", "decode us", "GB/s", "%",
               fmt::format("{} tok GMAC/s", options_.tokens), "%", "error");
    for (const Row& row : rows_) {
      const double weights = static_cast<double>(row.shape.n * row.shape.k);
      const double bandwidth = row.packed_bytes / row.decode_seconds;
      const double rate = weights * static_cast<double>(options_.tokens) / row.prefill_seconds;
      const double peak = matmul_test::is_quantised(row.type) ? ceilings_.int8 : ceilings_.f32;
      fmt::print("{:<7}{:>13}{:>9.3f}{:>11.1f}{:>9.2f}{:>8.1f}{:>13.0f}{:>8.1f}{:>10.1e}{}\n", name(row.type),
                 fmt::format("{}x{}", row.shape.n, row.shape.k), row.packed_bytes * 8 / weights, row.decode_seconds * 1e6,
                 bandwidth / 1e9, 100 * bandwidth / ceilings_.read, rate / 1e9, peak > 0 ? 100 * rate / peak : 0.0,
                 row.error, row.error < 2e-6 ? "" : "  WRONG");
    }
  }

  const Options& options_;
  const MatmulKernel& kernel_;
  ThreadPool pool_{options_.threads};
  ExecutionContext context_{&pool_};
  std::vector<std::byte> memory_;
  Ceilings ceilings_;
  std::vector<Row> rows_;
};

}  // namespace
}  // namespace rocmforge::bench

int main(int argc, char** argv) {
  using namespace rocmforge;
  bench::Options options;
  CLI::App app("Speed of the CPU's matrix products beside the machine's measured ceilings");
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--tokens", options.tokens, "tokens of the prefill")->check(CLI::PositiveNumber);
  app.add_option("--kernel", options.kernel, "as 'cpu_avx2'; default: the best that runs here");
  app.add_option("--formats", options.formats)->delimiter(',');
  app.add_option("--shapes", options.shapes, "n x k of the weights, as 5632x2048")->delimiter(',');
  app.add_option("--rounds", options.rounds, "the fastest counts")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    const auto kernels = matmul_test::runnable_kernels();
    const auto chosen = std::ranges::find_if(
        kernels, [&](const auto& kernel) { return options.kernel.empty() || kernel->name() == options.kernel; });
    if (chosen == kernels.end()) {
      throw Error("no kernel '" + options.kernel + "' runs here");
    }
    bench::Bench(options, **chosen).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
