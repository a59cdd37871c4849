#pragma once

// Calls of matvec_packed.h one after another in one launch: where a launch ends and the next begins, the device does nothing
// for some microseconds. Each call has work-groups of its own, behind those of the call before it. They load their first
// weights, then wait until the call before has ended.
//
// The device starts work-groups in the order of their numbers, so those that a work-group waits for run already or have
// ended, however many find room at once. docs/kernels/amd_chains.md has the protocol.

#include "kernels/matmul/amd/matvec_packed.h"
#include "kernels/rows/portable/rms_norm_row.h"
#include "kernels/tile/arrival.h"

namespace rocmforge::amd {

/// A work-group of a chain: which call it belongs to, and what it waits for.
class Chained {
 public:
  __device__ __forceinline__ explicit Chained(const ChainOrder& order) : order_(order), call_(0) {
#pragma unroll
    for (int i = 0; i + 1 < most_chained; ++i) {
      call_ += static_cast<int>(static_cast<int>(blockIdx.x) >= order.ends[i]);
    }
  }
  __device__ __forceinline__ int call() const { return call_; }
  __device__ __forceinline__ int group() const { return static_cast<int>(blockIdx.x) - begin(call_); }
  __device__ __forceinline__ std::uint32_t groups(int call) const {
    return static_cast<std::uint32_t>(order_.ends[call] - begin(call));
  }
  __device__ __forceinline__ bool is_first() const { return call_ == 0; }
  __device__ __forceinline__ void wait() const { gpu::wait_for_arrivals(counter(call_ - 1), groups(call_ - 1)); }
  /// Behind the last store. The last work-group of a call knows that all of them have seen the counter of the call before.
  __device__ __forceinline__ void arrive() const {
    gpu::sync_stores();
    if (gpu::thread_index() != 0) {
      return;
    }
    const bool final = call_ + 1 == order_.count;
    if (gpu::announce(counter(call_), !final) + 1 == groups(call_)) {
      if (call_ > 0) {
        *counter(call_ - 1) = 0;
      }
      if (final) {
        *counter(call_) = 0;
      }
    }
  }

 private:
  __device__ __forceinline__ gpu::Counter counter(int call) const { return (gpu::Counter)(order_.counters + call); }
  __device__ __forceinline__ int begin(int call) const { return call == 0 ? 0 : order_.ends[call - 1]; }

  const ChainOrder& order_;
  int call_;
};

/// A norm of one row with the bits of the kernel rms_norm: the sums of as many threads as that has, two of them a thread
/// where it has more than a work-group of a chain. Its weights are on their way before the call before it has ended.
__device__ __forceinline__ void norm_in_chain(const ChainedNorm& call, const Chained& own) {
  constexpr int kept_loads = 3;
  HIP_DYNAMIC_SHARED(uint4, dynamic)
  auto* const scratch = reinterpret_cast<float*>(dynamic);
  const auto global = [](auto* pointer) { return (decltype(pointer))(Global<std::remove_pointer_t<decltype(pointer)>>)pointer; };
  const int items = static_cast<int>(call.norm.dim / 4);
  const float* const x = global(call.norm.x);
  const gpu::RmsNormOut out{global(call.norm.weight), call.norm.residual != nullptr ? global(call.norm.residual) : nullptr,
                            global(call.norm.out), call.norm.factor, call.norm.scale};
  gpu::Floats<4> weights[kept_loads]{};
#pragma unroll
  for (int i = 0; i < kept_loads; ++i) {
    if (const int item = gpu::thread_index() + i * matvec_threads; item < items) {
      weights[i] = gpu::load<4>(out.weights, item);
    }
  }
  own.wait();
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const int thread = gpu::thread_index() + part * matvec_threads;
    float sum = 0.0f;
    for (int item = thread; thread < call.threads && item < items; item += call.threads) {
      sum += gpu::sum_of_squares(gpu::load<4>(x, item));
    }
    sum = gpu::wave_reduce<gpu::Sum>(sum);
    if (gpu::lane_index() == 0) {
      scratch[gpu::wave_index() + part * matvec_waves] = sum;
    }
  }
  sync_shared();
  const float total = gpu::lane_index() < call.threads / gpu::wave_size ? scratch[gpu::lane_index()] : 0.0f;
  const float mean = gpu::wave_reduce<gpu::Sum>(total) / static_cast<float>(call.norm.dim);
  const float scale = 1.0f / sqrtf(mean + call.norm.eps);
#pragma unroll
  for (int i = 0; i < kept_loads; ++i) {
    if (const int item = gpu::thread_index() + i * matvec_threads; item < items) {
      out.write(item, gpu::load<4>(x, item), scale, weights[i], out.before<4>(item));
    }
  }
  for (int item = gpu::thread_index() + kept_loads * matvec_threads; item < items; item += matvec_threads) {
    out.write(item, gpu::load<4>(x, item), scale);
  }
}

template <MatvecWay way>
__device__ __forceinline__ void run_chained(const MatvecChainArgs& args) {
  const Chained own(args.order);
  if ((args.norm_calls >> own.call() & 1) != 0) {
    norm_in_chain(args.norms[__builtin_popcount(args.norm_calls & ((1u << own.call()) - 1))], own);
  } else {
    matvec<way>(args.calls[own.call()], own.group(), own);
  }
  Chained(read_again(args.order)).arrive();  // anew: nothing of it is kept in registers during the products
}

}  // namespace rocmforge::amd
