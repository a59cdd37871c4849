// Kernels that check a device and its driver, not part of any model.
#include "device_check_args.h"
#include "kernels/tile/arrival.h"
#include "kernels/tile/device_code.h"
#include "tally_args.h"

namespace rocmforge::gpu {

ROCMFORGE_KERNEL scale(ScaleArgs args) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < args.count) {
    args.data[index] = args.data[index] * args.factor + 1.0f;
  }
}

ROCMFORGE_KERNEL reverse(ReverseArgs args) {
  extern __shared__ float values[];
  for (std::int64_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    values[i] = args.in[i];
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < args.count; i += blockDim.x) {
    args.out[i] = values[args.count - 1 - i];
  }
}

ROCMFORGE_KERNEL wave(WaveArgs args) {
  const int voters = wave_reduce<Sum>(1);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    args.out[0] = wave_size;
    args.out[1] = voters;
    args.out[2] = static_cast<std::int32_t>(gridDim.x);
  }
}

// Some work-groups take longer than others: a successor that does not wait reads values that are not written yet.
ROCMFORGE_KERNEL relay(RelayArgs args) {
  begin_dependent();
  const int index = static_cast<int>(blockIdx.x) * static_cast<int>(blockDim.x) + thread_index();
  if (index < args.count) {
    float value = args.in[args.count - 1 - index];
    const int rounds = blockIdx.x % 2 == 1 ? args.rounds : 1;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
      value = value * 0.5f + 1.0f;
    }
    args.out[index] = value;
  }
}

// Each work-group stores its number for the last one, which sees it only after a fence.
template <bool fenced>
__device__ void leave_to_the_last(const TallyArgs& args) {
  if (threadIdx.x != 0) {
    return;
  }
  args.parts[blockIdx.x] = static_cast<float>(blockIdx.x + 1);
  if constexpr (fenced) {
    __threadfence();
  }
  if (atomicAdd(args.done, 1u) == gridDim.x - 1) {
    __threadfence();
    float sum = 0.0f;
    for (unsigned int group = 0; group < gridDim.x; ++group) {
      sum += args.parts[group];
    }
    *args.sum = sum;
  }
}

ROCMFORGE_KERNEL tally(TallyArgs args) { leave_to_the_last<true>(args); }
ROCMFORGE_KERNEL tally_without_fence(TallyArgs args) { leave_to_the_last<false>(args); }

// The same with a number from each thread, and all threads of the last work-group to add them up.
ROCMFORGE_KERNEL tally_together(TallyArgs args) {
  args.parts[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
  if (last_to_arrive(args.done, static_cast<int>(gridDim.x))) {
    float sum = 0.0f;
    for (unsigned int part = threadIdx.x; part < gridDim.x * blockDim.x; part += blockDim.x) {
      sum += args.parts[part];
    }
    args.sum[threadIdx.x] = sum;
  }
}

#if ROCMFORGE_DEVICE_AMD
// The same, by one thread of the last work-group as soon as it has arrived: no later barrier helps what others have stored.
ROCMFORGE_KERNEL tally_at_arrival(TallyArgs args) {
  args.parts[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
  sync_stores();
  if (threadIdx.x == 0 && arrive(args.done, static_cast<int>(gridDim.x))) {
    float sum = 0.0f;
    for (unsigned int part = 0; part < gridDim.x * blockDim.x; ++part) {
      sum += args.parts[part];
    }
    *args.sum = sum;
  }
}
#endif

// Counts its work-groups in two steps, between which another one may take the first.
ROCMFORGE_KERNEL count_in_two_steps(TallyArgs args) {
  auto* const done = const_cast<volatile std::uint32_t*>(args.done);
  if (threadIdx.x == 0) {
    *done = *done + 1;
    __threadfence();
  }
}

ROCMFORGE_KERNEL fault(FaultArgs args) { *args.address = 1; }

// At most 64 threads: a larger work-group must be refused.
extern "C" __global__ void __launch_bounds__(64) narrow(WaveArgs args) {
  args.out[0] = static_cast<std::int32_t>(blockDim.x);
}

}  // namespace rocmforge::gpu
