// The causal convolution. Memory bound: a thread computes one channel of one row, and finds the rows before it in caches. A
// step reads and writes different slots, so that no thread waits for another.

#include "kernels/gpu/activation.h"
#include "kernels/gpu/causal_conv_args.h"
#include "kernels/gpu/elementwise.h"

namespace rocmforge::gpu {
namespace {

/// One channel of a sequence.
struct Channel {
  const CausalConvArgs& args;
  std::int64_t first;    ///< the sequence's first row of the step
  std::int32_t slot;     ///< of the state that it reads; -1: zeros
  std::int64_t channel;

  __device__ float* state(std::int32_t of_slot) const {
    return reinterpret_cast<float*>(args.states + of_slot * args.slot_stride) + channel;
  }

  /// u of a row of the step, or, for negative rows, of the state before it.
  __device__ float input(std::int64_t row) const {
    if (row >= 0) {
      const float* x = args.x + (first + row) * args.x_stride + channel;
      return args.gates ? x[0] * x[2 * args.channels] : x[0];
    }
    return slot >= 0 ? state(slot)[(args.taps - 1 + row) * args.channels] : 0.0f;
  }

  /// Writes the state after `row` to slot `to`.
  __device__ void keep(std::int64_t row, std::int32_t to) const {
    for (std::int64_t i = 0; i < args.taps - 1; ++i) {
      state(to)[i * args.channels] = input(row - (args.taps - 2) + i);
    }
  }

  __device__ float output(std::int64_t row) const {
    const float* weight = args.weight + channel * args.taps;
    float sum = 0.0f;
    for (std::int64_t tap = 0; tap < args.taps; ++tap) {
      sum += weight[tap] * input(row - (args.taps - 1) + tap);
    }
    if (args.bias != nullptr) {
      sum += args.bias[channel];
    }
    if (args.silu) {
      sum = Silu::value(sum);
    }
    return args.gates ? args.x[(first + row) * args.x_stride + args.channels + channel] * sum : sum;
  }
};

}  // namespace

ROCMFORGE_KERNEL causal_conv(CausalConvArgs args) {
  begin_dependent();
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    const std::int32_t sequence = args.sequence_of[token];
    const StateSlots slots = args.slots[sequence];
    const std::int64_t first = args.query_offsets[sequence];
    const std::int64_t row = token - first;
    for (std::int64_t channel = grid_index(); channel < args.channels; channel += grid_threads()) {
      const Channel inputs{args, first, slots.read, channel};
      args.out[token * args.channels + channel] = inputs.output(row);
      const bool last = token + 1 == args.query_offsets[sequence + 1];
      const std::int32_t kept[] = {row + 1 == slots.keep_rows ? slots.keep : -1, last ? slots.write : -1};
#pragma unroll 1
      for (int i = 0; i < 2; ++i) {
        if (kept[i] >= 0) {
          inputs.keep(row, kept[i]);
        }
      }
    }
  }
}

}  // namespace rocmforge::gpu
