// Sums of a token's residual streams (mix_streams), and rows of which the largest elements are kept (cut_rows).

#include "kernels/rows/portable/streams_args.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {
namespace {

constexpr int most_waves = 1024 / wave_size;

/// What a token's threads share.
struct MixShared {
  float matrix[mixed_streams * (mixed_streams + 1)];  ///< [streams, columns]
  float sums[most_waves];
};

template <int width>
__device__ float square_of(const float* x, std::int64_t dim, float* scratch) {
  float sum = 0.0f;
  for (std::int64_t item = thread_index(); item < dim / width; item += blockDim.x) {
    const Floats<width> values = load<width>(x, item);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum += values.values[i] * values.values[i];
    }
  }
  return block_reduce<Sum>(sum, scratch, 0.0f);
}

/// The entries of the token's matrix, each by a thread.
template <int columns>
__device__ void make_matrix(const MixStreamsArgs& args, std::int64_t token, MixShared& shared) {
  if (const int entry = thread_index(); entry < mixed_streams * columns) {
    float value = args.base[entry];
    if (args.logits != nullptr) {
#pragma unroll
      for (int j = 0; j < mixed_streams; ++j) {
        value += args.coefs[entry * mixed_streams + j] * tanhf(args.logits[token * mixed_streams + j]);
      }
    }
    shared.matrix[entry] = value;
  }
}

/// The columns of the token in steps of the work-group. in(a): where input a begins.
template <int columns, int width, class In>
__device__ void mix_token(const MixStreamsArgs& args, std::int64_t token, const float (&matrix)[mixed_streams][columns],
                          const In& in) {
  float* const x = args.x + token * mixed_streams * args.dim;
  for (std::int64_t item = thread_index(); item < args.dim / width; item += blockDim.x) {
    Floats<width> inputs[columns];
#pragma unroll
    for (int a = 0; a < columns; ++a) {
      inputs[a] = load<width>(in(a), item);
    }
#pragma unroll
    for (int b = 0; b < mixed_streams; ++b) {
      Floats<width> sum{};
#pragma unroll
      for (int a = 0; a < columns; ++a) {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          sum.values[i] += matrix[b][a] * inputs[a].values[i];
        }
      }
      store(x + b * args.dim, item, sum);
      if (b == 0) {
        if (args.factors != nullptr) {
          const Floats<width> factors = load<width>(args.factors, item);
#pragma unroll
          for (int i = 0; i < width; ++i) {
            sum.values[i] *= factors.values[i];
          }
        }
        store(args.first + token * args.dim, item, sum);
      }
    }
  }
}

template <int columns, bool matched, int width>
__device__ void mix_tokens(const MixStreamsArgs& args, MixShared& shared) {
  for (std::int64_t token = blockIdx.x; token < args.tokens; token += gridDim.x) {
    const float* const x = args.x + token * mixed_streams * args.dim;
    const float* const row = args.row + token * args.dim;
    const auto in = [&](int a) { return a == (matched ? 0 : mixed_streams) ? row : x + a * args.dim; };
    make_matrix<columns>(args, token, shared);
    __syncthreads();
    float matrix[mixed_streams][columns];
#pragma unroll
    for (int b = 0; b < mixed_streams; ++b) {
#pragma unroll
      for (int a = 0; a < columns; ++a) {
        matrix[b][a] = shared.matrix[b * columns + a];
      }
    }
    if constexpr (matched) {
      const auto dim = static_cast<float>(args.dim);
      const float wanted = square_of<width>(row, args.dim, shared.sums);
#pragma unroll
      for (int a = 1; a < mixed_streams; ++a) {
        const float square = square_of<width>(in(a), args.dim, shared.sums);
        const float factor = sqrtf(wanted / fmaxf(square, args.least_square * dim));
#pragma unroll
        for (int b = 0; b < mixed_streams; ++b) {
          matrix[b][a] *= factor;
        }
      }
    }
    mix_token<columns, width>(args, token, matrix, in);
    __syncthreads();  // the next token's matrix takes this one's place
  }
}

template <int columns, bool matched>
__device__ void mix_streams(const MixStreamsArgs& args) {
  __shared__ MixShared shared;
  begin_dependent();
  if (takes_fours(args.x, args.dim) && takes_fours(args.row, args.dim) && takes_fours(args.first, args.dim) &&
      takes_fours(args.factors, args.dim)) {
    mix_tokens<columns, matched, 4>(args, shared);
  } else {
    mix_tokens<columns, matched, 1>(args, shared);
  }
}

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(mixing_threads) mix_streams_alone(MixStreamsArgs args) { mix_streams<mixed_streams, false>(args); }
ROCMFORGE_KERNEL __launch_bounds__(mixing_threads) mix_streams_and_row(MixStreamsArgs args) {
  mix_streams<mixed_streams + 1, false>(args);
}
ROCMFORGE_KERNEL __launch_bounds__(mixing_threads) mix_streams_matched(MixStreamsArgs args) { mix_streams<mixed_streams, true>(args); }

ROCMFORGE_KERNEL __launch_bounds__(1024, 1) cut_rows(CutRowsArgs args) {
  __shared__ float scratch[most_waves];
  begin_dependent();
  const auto width = static_cast<float>(args.width);
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    float* const x = args.x + row * args.stride;
    float sum = 0.0f;
    for (std::int64_t i = thread_index(); i < args.width; i += blockDim.x) {
      sum += x[i];
    }
    const float mean = block_reduce<Sum>(sum, scratch, 0.0f) / width;
    float squares = 0.0f;
    for (std::int64_t i = thread_index(); i < args.width; i += blockDim.x) {
      squares += (x[i] - mean) * (x[i] - mean);
    }
    const float least = mean + args.deviations * sqrtf(block_reduce<Sum>(squares, scratch, 0.0f) / width);
    for (std::int64_t i = thread_index(); i < args.width; i += blockDim.x) {
      const float above = x[i] - least;
      x[i] = above < 0.0f ? 0.0f : above;  // a NaN stays one
    }
  }
}

}  // namespace rocmforge::gpu
