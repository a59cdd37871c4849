// The building blocks of device_code.h, one result each. Used by tests alone.

#include "kernels/gpu/device_code.h"
#include "primitives_args.h"

using namespace rocmforge;
using namespace rocmforge::gpu;

ROCMFORGE_KERNEL reductions(ReductionArgs args) {
  __shared__ float scratch[32];
  const int group = static_cast<int>(blockIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const float value = args.in[group * threads + thread_index()];
  float* out = args.out + (group * threads + thread_index()) * 6;
  out[0] = block_reduce<Sum>(value, scratch, 0.0f);
  out[1] = block_reduce<Max>(value, scratch, -infinity);
  out[2] = wave_reduce<Sum>(value);
  out[3] = wave_reduce<Max, 16>(value);
  out[4] = shuffle(value, (lane_index() * 7 + 3) & (wave_size - 1));
  out[5] = shuffle_xor(value, 5);
}

ROCMFORGE_KERNEL conversions(ConversionArgs args) {
  const int i = static_cast<int>(blockIdx.x) * static_cast<int>(blockDim.x) + thread_index();
  if (i >= args.count) {
    return;
  }
  args.halves[i] = from_float<half>(args.in[i]);
  args.bfloats[i] = from_float<bfloat16>(args.in[i]);
  args.from_halves[i] = to_float(args.halves[i]);
  args.from_bfloats[i] = to_float(args.bfloats[i]);
}

// What the tests of the emulated driver need: a stray access, bytes at odd addresses, dynamic shared memory, a counter.
ROCMFORGE_KERNEL stray_write(StrayArgs args) { args.out[args.index] = 1.0f; }

ROCMFORGE_KERNEL stray_shared_write(StrayArgs args) {
  __shared__ float shared[64];
  shared[args.index + thread_index()] = 2.0f;
  __syncthreads();
  args.out[thread_index()] = shared[63 - thread_index()];
}

ROCMFORGE_KERNEL reverse_bytes(ReverseArgs args) {
  extern __shared__ std::uint8_t bytes[];
  for (int i = thread_index(); i < args.count; i += static_cast<int>(blockDim.x)) {
    bytes[i] = args.in[i];
  }
  __syncthreads();
  for (int i = thread_index(); i < args.count; i += static_cast<int>(blockDim.x)) {
    args.out[i] = bytes[args.count - 1 - i];
  }
}

/// Moves words whose addresses are multiples of two alone.
ROCMFORGE_KERNEL copy_unaligned(CopyArgs args) {
  std::uint32_t word;
  __builtin_memcpy(&word, args.in + 6 * thread_index(), 4);
  word += 0x01010101u;
  __builtin_memcpy(args.out + 6 * thread_index(), &word, 4);
}

ROCMFORGE_KERNEL count_up(CounterArgs args) {
  if (thread_index() == 0) {
    const std::uint32_t place = atomicAdd(args.counter, 1u);
    args.order[place] = blockIdx.x + 100 * blockIdx.y + 10000 * blockIdx.z;
  }
}
