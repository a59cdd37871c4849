// Softmax of rows of any length in place: maximum and sum in one pass, the values in a second.

#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/softmax_args.h"

namespace rocmforge::gpu {
namespace {

/// Maximum and sum of e^(x - maximum) of what a thread has seen. Nothing but -inf: (-inf, 0).
struct RunningSum {
  float maximum = -infinity;
  float sum = 0.0f;

  __device__ void add(float x) {
    if (x > maximum) {
      sum = sum * expf(maximum - x) + 1.0f;
      maximum = x;
    } else if (x > -infinity) {
      sum += expf(x - maximum);
    }
  }
};

template <int width>
__device__ void softmax_rows(const RowSoftmaxArgs& args, float* scratch) {
  const std::int64_t items = args.cols / width;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    float* x = args.x + row * args.cols;
    RunningSum own;
    for (std::int64_t item = threadIdx.x; item < items; item += blockDim.x) {
      const Floats<width> scores = load<width>(x, item);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        own.add(scores.values[i]);
      }
    }
    const float maximum = block_reduce<Max>(own.maximum, scratch, -infinity);
    const bool masked = maximum == -infinity;
    const float share = own.sum > 0.0f ? own.sum * expf(own.maximum - maximum) : 0.0f;
    const float sum = block_reduce<Sum>(share, scratch, 0.0f);
    for (std::int64_t item = threadIdx.x; item < items; item += blockDim.x) {
      Floats<width> scores = load<width>(x, item);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        scores.values[i] = masked ? 0.0f : expf(scores.values[i] - maximum) / sum;
      }
      store(x, item, scores);
    }
  }
}

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(1024, 1) row_softmax(RowSoftmaxArgs args) {
  __shared__ float scratch[1024 / wave_size];
  if (takes_fours(args.x, args.cols)) {
    softmax_rows<4>(args, scratch);
  } else {
    softmax_rows<1>(args, scratch);
  }
}

}  // namespace rocmforge::gpu
