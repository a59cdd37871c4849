// Ranks that share a model: the sum of parts that lie in this device's memory, and the exchange of parts with other devices
// (docs/kernels/rank_exchange.md).

#include "kernels/rows/portable/ranks_args.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {
namespace {

/// Two neighbouring elements of a box, 16 bytes.
struct Two {
  std::uint32_t values[2];
};

__device__ inline BoxElement marked(std::uint32_t value, std::uint32_t round) {
  return (BoxElement{round} << 32) | value;
}

#if ROCMFORGE_DEVICE_AMD
using Box = __attribute__((address_space(1))) BoxElement*;
using Flag = const __attribute__((address_space(1))) std::uint32_t*;

/// Each element is a store of its own, past all caches.
__device__ inline void put(BoxElement* to, Two two, std::uint32_t round) {
  __hip_atomic_store((Box)to, marked(two.values[0], round), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  __hip_atomic_store((Box)to + 1, marked(two.values[1], round), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

__device__ inline bool look(const BoxElement* from, std::uint32_t round, Two& two) {
  const BoxElement first = __hip_atomic_load((Box)from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  const BoxElement second = __hip_atomic_load((Box)from + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  two = {{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)}};
  return static_cast<std::uint32_t>(first >> 32) == round && static_cast<std::uint32_t>(second >> 32) == round;
}

__device__ inline bool is_set(const std::uint32_t* flag) {
  return __hip_atomic_load((Flag)flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) != 0;
}
#else
/// One store of 16 bytes, in which each element is whole.
__device__ inline void put(BoxElement* to, Two two, std::uint32_t round) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(marked(two.values[0], round)),
               "l"(marked(two.values[1], round))
               : "memory");
}

__device__ inline bool look(const BoxElement* from, std::uint32_t round, Two& two) {
  BoxElement first;
  BoxElement second;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(from) : "memory");
  two = {{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)}};
  return static_cast<std::uint32_t>(first >> 32) == round && static_cast<std::uint32_t>(second >> 32) == round;
}

__device__ inline bool is_set(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value != 0;
}
#endif

/// A work-group's side of one round.
struct Round {
  const RankExchangeArgs& args;
  std::uint32_t number;
  bool given_up = false;

  __device__ bool receives(int rank) const { return args.to_first == 0 || rank == 0; }
  /// The elements of a rank that this work-group moves begin here, and are so many.
  __device__ std::uint32_t begin() const { return args.first + blockIdx.x * args.chunk; }
  __device__ std::uint32_t elements(int rank) const {
    const std::uint32_t all = args.counts[rank];
    return all <= begin() ? 0 : min(all - begin(), args.chunk);
  }
  /// The same of what `from` writes for `to`: a rank that has nothing for another tells that it has come here.
  __device__ std::uint32_t sent(int from, int to) const { return receives(to) ? max(elements(from), 1u) : 1u; }
  __device__ BoxElement* box(int of, int from) const {
    const std::uint32_t place = (blockIdx.x * 2 + (number & 1u)) * static_cast<std::uint32_t>(args.ranks);
    return args.boxes[of] + (place + static_cast<std::uint32_t>(from)) * std::size_t{args.elements_of_group};
  }

  __device__ Two own(std::uint32_t i) const {
    const std::uint32_t left = elements(args.rank);
    const std::uint32_t* from = args.part + begin();
    return {{i < left ? from[i] : 0u, i + 1 < left ? from[i + 1] : 0u}};
  }
  /// Waits until `from` has written these two.
  __device__ Two take(int from, std::uint32_t i) {
    constexpr std::uint32_t polls_between_flags = 1024;
    const BoxElement* place = box(args.rank, from) + i;
    Two two{};
    std::uint32_t polls = 0;
#pragma unroll 1
    while (!look(place, number, two) && !given_up) {
      if (++polls % polls_between_flags == 0) {
        given_up = is_set(args.given_up);
      }
#if ROCMFORGE_DEVICE_AMD
      __builtin_amdgcn_s_sleep(1);
#endif
    }
    return two;
  }

  __device__ void send() const {
    for (int turn = 1; turn < args.ranks; ++turn) {
      const int to = (args.rank + turn) % args.ranks;  // not all to one at the same time
      BoxElement* there = box(to, args.rank);
      const std::uint32_t count = sent(args.rank, to);
      for (std::uint32_t i = 2 * threadIdx.x; i < count; i += 2 * blockDim.x) {
        put(there + i, own(i), number);
      }
    }
#if ROCMFORGE_DEVICE_AMD && !defined(__GFX9__)
    // Stores have a counter of their own there, for which the loads that follow do not wait: that they arrive at all is
    // certain behind this.
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#endif
  }

  __device__ void sum() {
    const std::uint32_t count = elements(args.rank);
    float* out = reinterpret_cast<float*>(args.out) + begin();
    for (std::uint32_t i = 2 * threadIdx.x; i < count; i += 2 * blockDim.x) {
      float sums[2] = {};
      for (int rank = 0; rank < args.ranks; ++rank) {
        const Two two = rank == args.rank ? own(i) : take(rank, i);
        for (int e = 0; e < 2; ++e) {
          const float value = __builtin_bit_cast(float, two.values[e]);
          sums[e] = rank == 0 ? value : sums[e] + value;
        }
      }
      for (std::uint32_t e = 0; e < 2 && i + e < count; ++e) {
        out[i + e] = args.add != 0 ? out[i + e] + sums[e] : sums[e];
      }
    }
  }

  __device__ void gather() {
    std::uint32_t width = 0;
    for (int rank = 0; rank < args.ranks; ++rank) {
      width += args.widths[rank];
    }
    std::uint32_t column = 0;
    for (int rank = 0; rank < args.ranks; ++rank) {
      const bool own_part = rank == args.rank;
      const std::uint32_t count = own_part ? elements(rank) : sent(rank, args.rank);
      for (std::uint32_t i = 2 * threadIdx.x; i < count; i += 2 * blockDim.x) {
        place(own_part ? own(i) : take(rank, i), rank, i, column, width);
      }
      column += args.widths[rank];
    }
  }

  __device__ void place(Two two, int rank, std::uint32_t i, std::uint32_t column, std::uint32_t width) const {
    for (std::uint32_t e = i; e < i + 2 && e < elements(rank) && args.out != nullptr && receives(args.rank); ++e) {
      const std::uint32_t element = begin() + e;
      const std::uint32_t row = element / args.widths[rank];
      args.out[std::size_t{row} * width + column + element % args.widths[rank]] = two.values[e - i];
    }
  }

  /// Places of this parity that were not written for long would else have the number of a later round some day. The others
  /// write here again only once they have seen this rank's next round.
  __device__ void mark_all() const {
    const std::uint32_t count = static_cast<std::uint32_t>(args.ranks) * args.elements_of_group;
    for (std::uint32_t i = 2 * threadIdx.x; i < count; i += 2 * blockDim.x) {
      put(box(args.rank, 0) + i, {}, number);
    }
  }
};

}  // namespace

ROCMFORGE_KERNEL all_reduce(AllReduceArgs args) {
  begin_dependent();
  for (std::int64_t i = grid_index(); i < args.count; i += grid_threads()) {
    float sum = args.parts[0][i];
    for (int rank = 1; rank < args.ranks; ++rank) {
      sum += args.parts[rank][i];
    }
    args.out[i] = args.add != 0 ? args.out[i] + sum : sum;
  }
}

ROCMFORGE_KERNEL rank_exchange(RankExchangeArgs args) {
  begin_dependent();
  Round round{args, args.rounds[blockIdx.x] + 1};
  shake();
  round.send();
  shake();
  if (args.gathers != 0) {
    round.gather();
  } else {
    round.sum();
  }
  __syncthreads();  // all have read the number of the round, and what it brought
  if (round.number % rounds_of_marks < 2) {
    round.mark_all();
  }
  if (threadIdx.x == 0) {
    args.rounds[blockIdx.x] = round.number;
  }
}

}  // namespace rocmforge::gpu
