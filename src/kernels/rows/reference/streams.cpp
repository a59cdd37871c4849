#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/rows/kernels.h"

namespace rocmforge {
namespace {

class ReferenceMixStreams final : public AnyReference<MixStreams> {
 public:
  void run(const MixStreams::Spec& spec, const MixStreams::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.tokens, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        mix(spec, args, t);
      }
    });
  }

 private:
  static constexpr auto streams = static_cast<std::size_t>(MixStreams::streams);
  using Inputs = std::array<const float*, MixStreams::most_inputs>;
  using Factors = std::array<double, MixStreams::most_inputs>;
  using Matrix = std::array<double, streams * MixStreams::most_inputs>;

  static double mean_square(const float* x, std::int64_t dim) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < dim; ++i) {
      sum += double{x[i]} * double{x[i]};
    }
    return sum / static_cast<double>(dim);
  }

  /// M of token t, [streams, columns].
  static Matrix matrix_of(const MixStreams::Spec& spec, const MixStreams::Args& args, std::int64_t t) {
    Matrix matrix{};
    const auto entries = streams * static_cast<std::size_t>(spec.columns());
    for (std::size_t at = 0; at < entries; ++at) {
      matrix[at] = double{args.base[at]};
      for (std::size_t j = 0; args.logits != nullptr && j < streams; ++j) {
        const float logit = args.logits[t * MixStreams::streams + static_cast<std::int64_t>(j)];
        matrix[at] += double{args.coefs[at * streams + j]} * std::tanh(double{logit});
      }
    }
    return matrix;
  }

  static void mix(const MixStreams::Spec& spec, const MixStreams::Args& args, std::int64_t t) {
    float* const x = args.x + t * MixStreams::streams * spec.dim;
    const float* const row = spec.has_row() ? args.row + t * spec.dim : nullptr;
    const auto columns = static_cast<std::size_t>(spec.columns());
    Inputs in{x, x + spec.dim, x + 2 * spec.dim, x + 3 * spec.dim, row};
    const Matrix matrix = matrix_of(spec, args, t);
    Factors factors{};
    factors.fill(1.0);
    if (spec.inputs == MixStreams::Inputs::matched) {
      in[0] = row;
      const double wanted = mean_square(row, spec.dim);
      for (std::size_t a = 1; a < streams; ++a) {
        factors[a] = std::sqrt(wanted / std::max(mean_square(in[a], spec.dim), MixStreams::least_square));
      }
    }
    for (std::int64_t i = 0; i < spec.dim; ++i) {
      std::array<double, streams> out{};
      for (std::size_t b = 0; b < streams; ++b) {
        for (std::size_t a = 0; a < columns; ++a) {
          out[b] += matrix[b * columns + a] * factors[a] * double{in[a][i]};
        }
      }
      for (std::size_t b = 0; b < streams; ++b) {
        x[static_cast<std::int64_t>(b) * spec.dim + i] = static_cast<float>(out[b]);
      }
      const double factor = args.factors != nullptr ? double{args.factors[i]} : 1.0;
      args.first[t * spec.dim + i] = static_cast<float>(out[0] * factor);
    }
  }
};

class ReferenceCutRows final : public AnyReference<CutRows> {
 public:
  void run(const CutRows::Spec& spec, const CutRows::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args);
    const auto width = static_cast<double>(spec.width);
    for (std::int64_t r = 0; r < args.rows; ++r) {
      float* const x = args.x + r * args.stride;
      double mean = 0.0;
      for (std::int64_t i = 0; i < spec.width; ++i) {
        mean += double{x[i]} / width;
      }
      double squares = 0.0;
      for (std::int64_t i = 0; i < spec.width; ++i) {
        squares += (double{x[i]} - mean) * (double{x[i]} - mean);
      }
      const double cut = mean + double{spec.deviations} * std::sqrt(squares / width);
      for (std::int64_t i = 0; i < spec.width; ++i) {
        const double above = double{x[i]} - cut;
        x[i] = static_cast<float>(above < 0.0 ? 0.0 : above);  // a NaN stays one
      }
    }
  }
};

}  // namespace

std::unique_ptr<OpKernel<MixStreams>> make_reference_mix_streams() { return std::make_unique<ReferenceMixStreams>(); }
std::unique_ptr<OpKernel<CutRows>> make_reference_cut_rows() { return std::make_unique<ReferenceCutRows>(); }

}  // namespace rocmforge
