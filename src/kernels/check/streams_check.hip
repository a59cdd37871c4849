// Operations on residual streams as plain as they can be written: a token or a row a thread, because they are in place.
// Everything is computed in double.

#include "kernels/check/check_code.h"
#include "kernels/check/streams_args.h"

namespace rocmforge::check_kernels {
namespace {

__device__ inline double mean_square(const float* x, std::int64_t dim) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < dim; ++i) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return sum / static_cast<double>(dim);
}

}  // namespace

// Loops over entries are unrolled, so that these are registers; the last column stays 0 where there are only four.
ROCMFORGE_CHECK_KERNEL check_mix_streams(MixStreamsCheckArgs args) {
  constexpr int streams = MixStreams::streams;
  const int columns = args.inputs == MixStreams::Inputs::and_row ? streams + 1 : streams;
  const bool matched = args.inputs == MixStreams::Inputs::matched;
  for_each_element(args.tokens, [&](std::int64_t token) {
    float* const x = args.x + token * streams * args.dim;
    const float* const row = args.row + token * args.dim;
    const auto in = [&](int a) { return a == (matched ? 0 : streams) ? row : x + a * args.dim; };
    double matrix[streams][streams + 1] = {};
#pragma unroll
    for (int a = 0; a <= streams; ++a) {
      double factor = 1.0;
      if (matched && a > 0 && a < columns) {
        factor = sqrt(mean_square(row, args.dim) / fmax(mean_square(in(a), args.dim), MixStreams::least_square));
      }
#pragma unroll
      for (int b = 0; b < streams; ++b) {
        const int entry = b * columns + a;
        double sum = a < columns ? static_cast<double>(args.base[entry]) : 0.0;
        for (int j = 0; a < columns && args.logits != nullptr && j < streams; ++j) {
          sum += static_cast<double>(args.coefs[entry * streams + j]) *
                 tanh(static_cast<double>(args.logits[token * streams + j]));
        }
        matrix[b][a] = factor * sum;
      }
    }
    for (std::int64_t i = 0; i < args.dim; ++i) {
      double sums[streams] = {};
#pragma unroll
      for (int a = 0; a <= streams; ++a) {
        const double value = a < columns ? static_cast<double>(in(a)[i]) : 0.0;
#pragma unroll
        for (int b = 0; b < streams; ++b) {
          sums[b] += matrix[b][a] * value;
        }
      }
#pragma unroll
      for (int b = 0; b < streams; ++b) {
        x[b * args.dim + i] = static_cast<float>(sums[b]);
      }
      const double factor = args.factors != nullptr ? static_cast<double>(args.factors[i]) : 1.0;
      args.first[token * args.dim + i] = static_cast<float>(sums[0] * factor);
    }
  });
}

ROCMFORGE_CHECK_KERNEL check_cut_rows(CutRowsCheckArgs args) {
  for_each_element(args.rows, [&](std::int64_t r) {
    float* const x = args.x + r * args.stride;
    const auto width = static_cast<double>(args.width);
    double mean = 0.0;
    for (std::int64_t i = 0; i < args.width; ++i) {
      mean += static_cast<double>(x[i]) / width;
    }
    double squares = 0.0;
    for (std::int64_t i = 0; i < args.width; ++i) {
      squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
    }
    const double least = mean + args.deviations * sqrt(squares / width);
    for (std::int64_t i = 0; i < args.width; ++i) {
      const double above = static_cast<double>(x[i]) - least;
      x[i] = static_cast<float>(above < 0.0 ? 0.0 : above);
    }
  });
}

}  // namespace rocmforge::check_kernels
