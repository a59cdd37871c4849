#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/rows/kernels.h"

namespace rocmforge {
namespace {

/// The name, device and priority of kernels of which the compiler makes vectors.
template <class Op>
class CompiledKernel : public OpKernel<Op> {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cpu; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::portable; }
  [[nodiscard]] Support supports(const typename Op::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }
};

/// Sums are those of so many interleaved parts of a row, which are vectors whatever the order of floats means to the
/// compiler.
constexpr std::int64_t parts = 16;

/// The sum of term(x[i]).
template <class Term>
double sum_of(const float* x, std::int64_t count, const Term& term) {
  std::array<float, parts> sums{};
  std::int64_t i = 0;
  for (; i + parts <= count; i += parts) {
    for (std::int64_t part = 0; part < parts; ++part) {
      sums[static_cast<std::size_t>(part)] += term(x[i + part]);
    }
  }
  double sum = 0.0;
  for (; i < count; ++i) {
    sum += double{term(x[i])};
  }
  for (const float part : sums) {
    sum += double{part};
  }
  return sum;
}

class CpuMixStreams final : public CompiledKernel<MixStreams> {
 public:
  void run(const MixStreams::Spec& spec, const MixStreams::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (spec.dim * MixStreams::streams));
    for_each_range(context, args.tokens, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        mix(spec, args, t);
      }
    });
  }

 private:
  static constexpr auto streams = static_cast<std::size_t>(MixStreams::streams);
  static constexpr std::int64_t piece = 256;  ///< columns that are copied before any is overwritten
  using Matrix = std::array<std::array<float, MixStreams::most_inputs>, streams>;

  static Matrix matrix(const MixStreams::Spec& spec, const MixStreams::Args& args, std::int64_t t) {
    const auto columns = static_cast<std::size_t>(spec.columns());
    std::array<float, streams> steering{};
    if (args.logits != nullptr) {
      const float* logits = args.logits + t * MixStreams::streams;
      std::transform(logits, logits + streams, steering.begin(), [](float logit) { return std::tanh(logit); });
    }
    Matrix matrix{};
    for (std::size_t b = 0; b < streams; ++b) {
      for (std::size_t a = 0; a < columns; ++a) {
        const std::size_t at = b * columns + a;
        float value = args.base[at];
        for (std::size_t j = 0; args.logits != nullptr && j < streams; ++j) {
          value += args.coefs[at * streams + j] * steering[j];
        }
        matrix[b][a] = value;
      }
    }
    return matrix;
  }

  static void mix(const MixStreams::Spec& spec, const MixStreams::Args& args, std::int64_t t) {
    float* const x = args.x + t * MixStreams::streams * spec.dim;
    const float* const row = spec.has_row() ? args.row + t * spec.dim : nullptr;
    const auto columns = static_cast<std::size_t>(spec.columns());
    Matrix mixing = matrix(spec, args, t);
    std::array<const float*, MixStreams::most_inputs> in{x, x + spec.dim, x + 2 * spec.dim, x + 3 * spec.dim, row};
    if (spec.inputs == MixStreams::Inputs::matched) {
      in[0] = row;
      match(spec.dim, in, mixing);
    }
    std::array<std::array<float, piece>, MixStreams::most_inputs> read{};
    for (std::int64_t first = 0; first < spec.dim; first += piece) {
      const std::int64_t count = std::min(piece, spec.dim - first);
      for (std::size_t a = 0; a < columns; ++a) {
        std::copy_n(in[a] + first, count, read[a].begin());
      }
      for (std::size_t b = 0; b < streams; ++b) {
        std::array<float, piece> sum{};
        for (std::size_t a = 0; a < columns; ++a) {
          std::transform(sum.begin(), sum.end(), read[a].begin(), sum.begin(),
                         [factor = mixing[b][a]](float so_far, float value) { return so_far + factor * value; });
        }
        std::copy_n(sum.begin(), count, x + static_cast<std::int64_t>(b) * spec.dim + first);
      }
      write_first(args, x + first, t * spec.dim, first, count);
    }
  }

  /// Columns of the streams get the factors that give these the magnitude of the row.
  static void match(std::int64_t dim, const std::array<const float*, MixStreams::most_inputs>& in, Matrix& mixing) {
    const auto square = [](float value) { return value * value; };
    const double wanted = sum_of(in[0], dim, square);
    for (std::size_t a = 1; a < streams; ++a) {
      const double least = MixStreams::least_square * static_cast<double>(dim);
      const auto factor = static_cast<float>(std::sqrt(wanted / std::max(sum_of(in[a], dim, square), least)));
      std::ranges::for_each(mixing, [&](auto& entries) { entries[a] *= factor; });
    }
  }

  static void write_first(const MixStreams::Args& args, const float* from, std::int64_t at, std::int64_t first,
                          std::int64_t count) {
    float* const out = args.first + at + first;
    if (args.factors != nullptr) {
      std::transform(from, from + count, args.factors + first, out,
                     [](float value, float factor) { return value * factor; });
    } else {
      std::copy_n(from, count, out);
    }
  }
};

class CpuCutRows final : public CompiledKernel<CutRows> {
 public:
  void run(const CutRows::Spec& spec, const CutRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / spec.width);
    for_each_range(context, args.rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        cut(spec, args.x + r * args.stride);
      }
    });
  }

 private:
  static void cut(const CutRows::Spec& spec, float* x) {
    const auto width = static_cast<double>(spec.width);
    const auto mean = static_cast<float>(sum_of(x, spec.width, [](float value) { return value; }) / width);
    const double squares = sum_of(x, spec.width, [mean](float value) { return (value - mean) * (value - mean); });
    const auto least = static_cast<float>(double{mean} + double{spec.deviations} * std::sqrt(squares / width));
    std::transform(x, x + spec.width, x, [least](float value) {
      const float above = value - least;
      return above < 0.0f ? 0.0f : above;  // a NaN stays one
    });
  }
};

}  // namespace

std::unique_ptr<OpKernel<MixStreams>> make_cpu_mix_streams() { return std::make_unique<CpuMixStreams>(); }
std::unique_ptr<OpKernel<CutRows>> make_cpu_cut_rows() { return std::make_unique<CpuCutRows>(); }

}  // namespace rocmforge
