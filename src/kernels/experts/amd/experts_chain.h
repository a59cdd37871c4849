#pragma once

// The products of one token's experts in one launch: gate and up, down, and the dense weights that follow them. The same
// chain as in matvec_chain.h: the work-groups of a call wait until the call before it has ended.

#include "kernels/experts/amd/experts_packed.h"
#include "kernels/matmul/amd/matvec_chain.h"

namespace rocmforge::amd {

/// A call that is not the first one of its launch.
struct Following {
  const Chained& own;
  __device__ __forceinline__ static constexpr bool is_first() { return false; }
  __device__ __forceinline__ void wait() const { own.wait(); }
};

/// `way` of the dense call.
template <MatvecWay way>
__device__ __forceinline__ void run_expert_chain(const ExpertChainArgs& args) {
  const Chained own(args.order);
  if (own.is_first()) {
    expert_vectors<false>(args.gate_up, own.group(), OwnLaunch{});
  } else if (own.call() == 1) {
    expert_vectors<true>(args.down, own.group(), Following{own});
  } else {
    matvec<way>(args.dense, own.group(), Following{own});
  }
  Chained(read_again(args.order)).arrive();  // anew: nothing of it is kept in registers during the products
}

}  // namespace rocmforge::amd
