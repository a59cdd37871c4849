// The causal convolution. Memory bound: a thread computes one channel of one row, and finds the rows before it in caches. A
// step reads and writes different slots, so that no thread waits for another.

#include "kernels/recurrent/portable/causal_conv_args.h"
#include "kernels/tile/activation.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {
namespace {

/// A row's sequence.
struct Place {
  StateSlots slots;
  std::int32_t first;  ///< the sequence's first row of the step
  std::int32_t end;

  __device__ Place(const CausalConvArgs& args, std::int64_t token) {
    const std::int32_t sequence = args.sequence_of[token < args.tokens ? token : args.tokens - 1];
    slots = args.slots[sequence];
    first = args.query_offsets[sequence];
    end = args.query_offsets[sequence + 1];
  }
};

/// One channel of a sequence.
struct Channel {
  static constexpr int at_once = 4;  ///< inputs whose loads do not wait for each other

  const CausalConvArgs& args;
  std::int64_t channel;
  int taps;
  const float* x;    ///< of the sequence's first row of the step
  const float* old;  ///< of the state before it; null: zeros

  __device__ Channel(const CausalConvArgs& args, const Place& place, std::int64_t channel)
      : args(args),
        channel(channel),
        taps(static_cast<int>(args.taps)),
        x(args.x + place.first * args.x_stride + channel),
        old(place.slots.read >= 0 ? state(place.slots.read) : nullptr) {}

  __device__ float* state(std::int32_t slot) const {
    return reinterpret_cast<float*>(args.states + slot * args.slot_stride) + channel;
  }

  /// u of a row of the step, or, for negative rows, of the state before it.
  __device__ float input(int row) const {
    if (row >= 0) {
      const float* const own = x + row * args.x_stride;
      return args.gates ? own[0] * own[2 * args.channels] : own[0];
    }
    return old != nullptr ? old[(taps - 1 + row) * args.channels] : 0.0f;
  }
  /// u of `count` rows from `row` on, at_once at most.
  __device__ void load_inputs(int row, int count, float (&u)[at_once]) const {
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      u[i] = i < count ? input(row + i) : 0.0f;
    }
  }

  /// Writes the state after `row` to slot `to`.
  __device__ void keep(int row, std::int32_t to) const {
#pragma unroll 1
    for (int done = 0; done < taps - 1; done += at_once) {
      float u[at_once];
      load_inputs(row - (taps - 2) + done, taps - 1 - done, u);
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        if (done + i < taps - 1) {
          state(to)[(done + i) * args.channels] = u[i];
        }
      }
    }
  }

  __device__ float output(int row) const {
    const float* weight = args.weight + channel * taps;
    float sum = 0.0f;
#pragma unroll 1
    for (int tap = 0; tap < taps; tap += at_once) {
      float u[at_once];
      float weights[at_once];
      load_inputs(row - (taps - 1) + tap, taps - tap, u);
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        weights[i] = tap + i < taps ? weight[tap + i] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        sum = tap + i < taps ? sum + weights[i] * u[i] : sum;
      }
    }
    if (args.bias != nullptr) {
      sum += args.bias[channel];
    }
    if (args.silu) {
      sum = Silu::value(sum);
    }
    return args.gates ? x[row * args.x_stride + args.channels] * sum : sum;
  }
};

}  // namespace

ROCMFORGE_KERNEL causal_conv(CausalConvArgs args) {
  release_successor();
  Place place(args, blockIdx.y);  // arrays of the step, which are read before the predecessor has ended
  wait_for_predecessor();
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    if (token != blockIdx.y) {
      place = Place(args, token);
    }
    const int row = static_cast<int>(token) - place.first;
    const bool last = token + 1 == place.end;
    for (std::int64_t channel = grid_index(); channel < args.channels; channel += grid_threads()) {
      const Channel inputs(args, place, channel);
      args.out[token * args.channels + channel] = inputs.output(row);
      const std::int32_t kept[] = {row + 1 == place.slots.keep_rows ? place.slots.keep : -1, last ? place.slots.write : -1};
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
