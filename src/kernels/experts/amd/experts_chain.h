#pragma once

// The products of one token's experts in one launch, with what stands before them and behind them: attention's output, the
// router, gate and up, down, and the dense weights that follow. The same chain as in matvec_chain.h: the work-groups of a
// call wait until the call before it has ended. Where the router is one of the calls, gate and up, and down, wait before
// they look for their weights, which the router chooses.

#include "kernels/experts/amd/experts_packed.h"
#include "kernels/experts/portable/route_groups.h"
#include "kernels/matmul/amd/matvec_chain.h"

namespace rocmforge::amd {

/// A call of experts of such a launch.
struct ChainedExperts {
  const Chained& own;
  bool chosen_here;  ///< the router is a call of this launch
  __device__ __forceinline__ bool is_first() const { return own.is_first(); }
  __device__ __forceinline__ bool waits_for_choice() const { return chosen_here; }
  __device__ __forceinline__ void wait() const { own.wait(); }
};

/// Shared memory of a work-group of the router.
struct ChainedRoute {
  gpu::RouteGroup<matvec_threads> group;
  bool last_group;
};

__device__ __forceinline__ void route_in_chain(const gpu::RouteGroupsArgs& args, const Chained& own) {
  static_assert(sizeof(ChainedRoute) <= chained_route_bytes);
  HIP_DYNAMIC_SHARED(uint4, dynamic)
  auto& shared = *reinterpret_cast<ChainedRoute*>(dynamic);
  gpu::route_rows(
      args, own.group(), 0, shared.group,
      [&]() __attribute__((always_inline)) {
        if (!own.is_first()) {
          own.wait();
        }
      },
      [&](std::uint32_t * counter) __attribute__((always_inline)) {
        return gpu::last_to_arrive(counter, static_cast<int>(own.groups(own.call())), shared.last_group);
      });
}

/// `way` of the dense calls.
template <MatvecWay way>
__device__ __forceinline__ void run_expert_chain(const ExpertChainArgs& args) {
  const Chained own(args.order);
  const auto call = static_cast<ExpertCall>(static_cast<int>(args.first) + own.call());
  const bool chosen_here = args.first <= ExpertCall::route;
  if (call == ExpertCall::route) {
    route_in_chain(args.route, own);
  } else if (call == ExpertCall::gate_up) {
    expert_vectors<false>(args.gate_up, own.group(), ChainedExperts{own, chosen_here});
  } else if (call == ExpertCall::down) {
    expert_vectors<true>(args.down, own.group(), ChainedExperts{own, chosen_here});
  } else {
    matvec<way>(args.products[call == ExpertCall::output ? 0 : 1], own.group(), own);
  }
  Chained(read_again(args.order)).arrive();  // anew: nothing of it is kept in registers during the products
}

}  // namespace rocmforge::amd
