// The short convolution between two gates. Memory bound: a thread computes one channel of one row, and finds the rows before
// it in caches. A step reads and writes different slots, so that no thread waits for another.

#include "kernels/gpu/elementwise.h"
#include "kernels/gpu/short_conv_args.h"

namespace rocmforge::gpu {
namespace {

/// One channel of a sequence.
struct Channel {
  const ShortConvArgs& args;
  std::int64_t first;    ///< the sequence's first row of the step
  std::int32_t slot;     ///< of the state that it reads; -1: zeros
  std::int64_t channel;

  __device__ float* state(std::int32_t of_slot) const {
    return reinterpret_cast<float*>(args.states + of_slot * args.slot_stride) + channel;
  }

  /// b * x of a row of the sequence, of the step or, below 0, before it.
  __device__ float input(std::int64_t row) const {
    if (row >= 0) {
      const float* b = args.x + (first + row) * 3 * args.channels + channel;
      return b[0] * b[2 * args.channels];
    }
    return slot >= 0 ? state(slot)[(args.taps - 1 + row) * args.channels] : 0.0f;
  }

  /// Writes the state behind `row`.
  __device__ void keep(std::int64_t row, std::int32_t to) const {
    for (std::int64_t i = 0; i < args.taps - 1; ++i) {
      state(to)[i * args.channels] = input(row - (args.taps - 2) + i);
    }
  }
};

}  // namespace

ROCMFORGE_KERNEL short_conv(ShortConvArgs args) {
  begin_dependent();
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    const std::int32_t sequence = args.sequence_of[token];
    const StateSlots slots = args.slots[sequence];
    const std::int64_t first = args.query_offsets[sequence];
    const std::int64_t row = token - first;
    for (std::int64_t channel = grid_index(); channel < args.channels; channel += grid_threads()) {
      const Channel inputs{args, first, slots.read, channel};
      const float* weight = args.weight + channel * args.taps;
      float sum = 0.0f;
      for (std::int64_t tap = 0; tap < args.taps; ++tap) {
        sum += weight[tap] * inputs.input(row - (args.taps - 1) + tap);
      }
      args.out[token * args.channels + channel] = args.x[(token * 3 + 1) * args.channels + channel] * sum;
      if (slots.keep >= 0 && row + 1 == slots.keep_rows) {
        inputs.keep(row, slots.keep);
      }
      if (slots.write >= 0 && token + 1 == args.query_offsets[sequence + 1]) {
        inputs.keep(row, slots.write);
      }
    }
  }
}

}  // namespace rocmforge::gpu
