// Attention of one query row a sequence, for Hopper. One work-group stays on each multiprocessor. The work is a list of
// (sequence, KV head, piece of the keys); the kernel itself reads the lengths. Work-groups take neighbouring entries with
// equal numbers of key tiles. One warp copies tiles of K and V with the bulk copy engine into a ring that entries share;
// groups of four warps take tiles in turns, and a warp multiplies 16 keys with all query heads of the KV head. Pieces of one
// head are added up in their order: inside the work-group where it has them all, else by the last work-group to arrive. Q8_0
// is copied as it is stored; quants become 16-bit numbers between shared memory and the matrix units. Scales of K multiply
// sums of 32 dimensions, scales of V the weights.

#include "kernels/attention/hopper/attention_decode_multiply.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/registers.h"

namespace rocmforge::hopper {
namespace {

template <class C>
__device__ void attend(const AttentionDecodeArgs& args) {
  static_assert(sizeof(Shared<C>) - 1024 < C::shape.shared_bytes() - 1024);  // its end is padded to 1,024 bytes
  extern __shared__ char memory[];
  auto& shared = *reinterpret_cast<Shared<C>*>((reinterpret_cast<std::uintptr_t>(memory) + 1023) / 1024 * 1024);
  gpu::release_successor();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    prefetch_map(&args.k);
  }
  if (thread >= C::consumer_threads && thread < C::consumer_threads + C::slots) {
    const int slot = thread - C::consumer_threads;
    barrier_init(&shared.full[slot], DecodeShape::full_arrivals);
    barrier_init(&shared.free[slot], DecodeShape::free_arrivals);
    barrier_init_fence();
  }
  __syncthreads();
  if (thread >= C::consumer_threads) {
    if constexpr (C::groups > 1) {
      give_up_registers<C::producer_registers>();
    }
    const int warp = (thread - C::consumer_threads) / 32;
    if (warp < C::producers) {
      DecodeWalk walk(args);
      Producer<C>{args, shared, warp, thread % 32, evict_first_policy()}.run(walk);
    } else {
      gpu::wait_for_predecessor();
    }
  } else {
    if constexpr (C::groups > 1) {
      take_registers<C::consumer_registers>();
    }
    DecodeWalk walk(args);
    Consumer<C>{args, shared, thread}.run(walk);
  }
}

}  // namespace

// attention_decode_TYPE_DIMS_HEADS: head_dim up to DIMS, HEADS query heads of a KV head at once; decode_groups of warps.
#define ROCMFORGE_ATTENTION_DECODE(name, type, quants, dims, heads)                                  \
  extern "C" __global__ void __launch_bounds__(                                                      \
      Config<type, quants, dims, heads, decode_groups(quants, dims, heads)>::threads, 1)             \
      attention_decode_##name##_##dims##_##heads(const __grid_constant__ AttentionDecodeArgs args) { \
    attend<Config<type, quants, dims, heads, decode_groups(quants, dims, heads)>>(args);             \
  }
#define ROCMFORGE_ATTENTION_DECODE_DIMS(name, type, quants) \
  ROCMFORGE_ATTENTION_DECODE(name, type, quants, 64, 8)     \
  ROCMFORGE_ATTENTION_DECODE(name, type, quants, 64, 16)    \
  ROCMFORGE_ATTENTION_DECODE(name, type, quants, 128, 8)    \
  ROCMFORGE_ATTENTION_DECODE(name, type, quants, 128, 16)   \
  ROCMFORGE_ATTENTION_DECODE(name, type, quants, 256, 8)    \
  ROCMFORGE_ATTENTION_DECODE(name, type, quants, 256, 16)

ROCMFORGE_ATTENTION_DECODE_DIMS(f16, half, false)
ROCMFORGE_ATTENTION_DECODE_DIMS(bf16, bfloat16, false)
ROCMFORGE_ATTENTION_DECODE_DIMS(q8_0, half, true)

}  // namespace rocmforge::hopper
