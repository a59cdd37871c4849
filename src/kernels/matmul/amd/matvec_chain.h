#pragma once

// Calls of matvec_packed.h one after another in one launch: where a launch ends and the next begins, the device does nothing
// for some microseconds. Each call has work-groups of its own, behind those of the call before it. They load their first
// weights, then wait until the call before has ended.
//
// The device starts work-groups in the order of their numbers, so those that a work-group waits for run already or have
// ended, however many find room at once. docs/kernels/amd_chains.md has the protocol.

#include "kernels/matmul/amd/matvec_packed.h"
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

template <MatvecWay way>
__device__ __forceinline__ void run_chained(const MatvecChainArgs& args) {
  const Chained own(args.order);
  matvec<way>(args.calls[own.call()], own.group(), own);
  Chained(read_again(args.order)).arrive();  // anew: nothing of it is kept in registers during the products
}

}  // namespace rocmforge::amd
