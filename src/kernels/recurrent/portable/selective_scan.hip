// The scan of Mamba: selective_scan_SIZE for states of up to SIZE elements. A thread has one channel, whose state stays in
// registers while the rows of a sequence go by. All threads read the same B and C, which come from caches. A row has the
// same bits however its sequence is cut into steps.

#include "kernels/recurrent/portable/selective_scan_args.h"
#include "kernels/tile/activation.h"
#include "kernels/tile/elementwise.h"

using rocmforge::gpu::SelectiveScanArgs;

namespace rocmforge::gpu {
namespace {

/// One channel of a sequence. States are taken in fours.
template <int size>
struct ChannelScan {
  const SelectiveScanArgs& args;
  std::int64_t channel;
  float a[size];
  float state[size];

  /// visit(n) for each element of the state.
  template <class Visit>
  __device__ void for_each_element(const Visit& visit) const {
#pragma unroll
    for (int four = 0; four < size; four += 4) {
      if (four < args.state_size) {
#pragma unroll
        for (int n = four; n < four + 4; ++n) {
          visit(n);
        }
      }
    }
  }

  __device__ float* slot(std::int32_t index) const {
    return reinterpret_cast<float*>(args.states + index * args.slot_stride) + channel * args.state_size;
  }

  __device__ void begin(std::int32_t index) {
    for_each_element([&](int n) {
      a[n] = args.a[channel * args.state_size + n];
      state[n] = index >= 0 ? slot(index)[n] : 0.0f;
    });
  }

  __device__ void keep(std::int32_t index) const {
    float* const to = slot(index);
    for_each_element([&](int n) { to[n] = state[n]; });
  }

  __device__ void advance(std::int64_t t) {
    const float raw = args.dt[t * args.stride + channel];
    const float step = raw > 20.0f ? raw : log1pf(expf(raw));
    const float x = args.x[t * args.channels + channel];
    const float input = step * x;
    const float* const b = args.b + t * args.bc_stride;
    const float* const c = args.c + t * args.bc_stride;
    float sum = args.d[channel] * x;
    for_each_element([&](int n) {
      state[n] = fmaf(expf(step * a[n]), state[n], input * b[n]);
      sum = fmaf(state[n], c[n], sum);
    });
    args.out[t * args.channels + channel] = sum * Silu::value(args.z[t * args.stride + channel]);
  }
};

template <int size>
__device__ void selective_scan(const SelectiveScanArgs& args) {
  release_successor();
  wait_for_predecessor();
  const std::int64_t channel = grid_index();
  if (channel >= args.channels) {
    return;
  }
  const int sequence = static_cast<int>(blockIdx.y);
  const StateSlots slots = args.slots[sequence];
  const int first = args.query_offsets[sequence];
  const int end = args.query_offsets[sequence + 1];
  ChannelScan<size> scan{args, channel, {}, {}};
  scan.begin(slots.read);
#pragma unroll 1
  for (int t = first; t < end; ++t) {
    scan.advance(t);
    if (slots.keep >= 0 && t - first + 1 == slots.keep_rows) {
      scan.keep(slots.keep);
    }
  }
  if (slots.write >= 0) {
    scan.keep(slots.write);
  }
}

}  // namespace
}  // namespace rocmforge::gpu

#define ROCMFORGE_SELECTIVE_SCAN(size)                                       \
  ROCMFORGE_KERNEL __launch_bounds__(rocmforge::gpu::selective_scan_threads) \
      selective_scan_##size(SelectiveScanArgs args) {                        \
    rocmforge::gpu::selective_scan<size>(args);                              \
  }
ROCMFORGE_SELECTIVE_SCAN(16)
ROCMFORGE_SELECTIVE_SCAN(32)
