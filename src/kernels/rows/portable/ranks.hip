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

/// Pairs of a thread that are under way at the same time, since a load and a store take long.
constexpr int batch = 4;

/// A work-group's side of one round. Elements are counted from the first one of the work-group; those of a batch are the pairs
/// i, i + stride(), ...
struct Round {
  const RankExchangeArgs& args;
  std::uint32_t number;
  bool given_up = false;

  __device__ static std::uint32_t stride() { return 2 * blockDim.x; }
  __device__ bool receives(int rank) const { return args.to_first == 0 || rank == 0; }
  __device__ std::uint32_t begin() const { return args.first + blockIdx.x * args.chunk; }
  /// The elements of a rank that this work-group moves.
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
  __device__ void own(std::uint32_t i, Two (&twos)[batch]) const {
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      twos[b] = own(i + b * stride());
    }
  }
  __device__ void put_batch(BoxElement* there, std::uint32_t i, std::uint32_t count, const Two (&twos)[batch]) const {
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (i + b * stride() < count) {
        put(there + i + b * stride(), twos[b], number);
      }
    }
  }
  /// Waits until look_at(b) has been true of each pair of a batch.
  template <class Look>
  __device__ void wait_for(const Look& look_at) {
    constexpr std::uint32_t polls_between_flags = 1024;
    std::uint32_t polls = 0;
#pragma unroll 1
    while (true) {
      bool all = true;
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        all = look_at(b) && all;
      }
      if (all || given_up) {
        return;
      }
      if (++polls % polls_between_flags == 0) {
        given_up = is_set(args.given_up);
      }
#if ROCMFORGE_DEVICE_AMD
      __builtin_amdgcn_s_sleep(1);
#endif
    }
  }
  /// Waits until another rank has written these to its place in the own box.
  __device__ void take(const BoxElement* place, std::uint32_t i, std::uint32_t count, Two (&twos)[batch]) {
    wait_for([&](int b) {
      const std::uint32_t at = i + b * stride();
      return at >= count || look(place + at, number, twos[b]);
    });
  }
  /// Behind the stores of a rank, before it waits.
  __device__ static void let_arrive() {
#if ROCMFORGE_DEVICE_AMD && !defined(__GFX9__)
    // Stores have a counter of their own there, for which the loads that follow do not wait: that they arrive at all is
    // certain behind this.
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#endif
  }

  __device__ void send() const {
    const std::uint32_t most = max(elements(args.rank), 1u);
    for (std::uint32_t i = 2 * threadIdx.x; i < most; i += batch * stride()) {
      Two twos[batch];
      own(i, twos);
      for (int turn = 1; turn < args.ranks; ++turn) {
        const int to = (args.rank + turn) % args.ranks;  // not all to one at the same time
        put_batch(box(to, args.rank), i, sent(args.rank, to), twos);
      }
    }
    let_arrive();
  }

  __device__ void store(std::uint32_t i, std::uint32_t end, Two two) const {
    float* out = reinterpret_cast<float*>(args.out) + begin();
#pragma unroll
    for (std::uint32_t e = 0; e < 2; ++e) {
      if (i + e < end) {
        const float sum = __builtin_bit_cast(float, two.values[e]);
        out[i + e] = args.add != 0 ? out[i + e] + sum : sum;
      }
    }
  }
  /// The sums of elements first + i, ..., which the others have written at place i, ... of their parts of the own box.
  __device__ void add_up(std::uint32_t first, std::uint32_t i, std::uint32_t count, Two (&sums)[batch]) {
    for (int rank = 0; rank < args.ranks; ++rank) {
      Two twos[batch] = {};
      if (rank == args.rank) {
        own(first + i, twos);
      } else {
        take(box(args.rank, rank), i, count, twos);
      }
#pragma unroll
      for (int b = 0; b < batch; ++b) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float value = __builtin_bit_cast(float, twos[b].values[e]);
          const float sum = rank == 0 ? value : __builtin_bit_cast(float, sums[b].values[e]) + value;
          sums[b].values[e] = __builtin_bit_cast(std::uint32_t, sum);
        }
      }
    }
  }

  __device__ void sum() {
    const std::uint32_t count = elements(args.rank);
    for (std::uint32_t i = 2 * threadIdx.x; i < count; i += batch * stride()) {
      Two sums[batch] = {};
      add_up(0, i, count, sums);
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        store(i + b * stride(), count, sums[b]);
      }
    }
  }

  __device__ std::uint32_t slice_begin(int rank) const {
    return min(static_cast<std::uint32_t>(rank) * args.slice, elements(args.rank));
  }
  __device__ std::uint32_t slice_count(int rank) const { return min(args.slice, elements(args.rank) - slice_begin(rank)); }
  /// What is written of a slice, since a rank without one tells that it has come here.
  __device__ std::uint32_t slice_sent(int rank) const { return max(slice_count(rank), 1u); }
  __device__ std::uint32_t of_all_slices() const { return args.slice * static_cast<std::uint32_t>(args.ranks); }

  /// The parts of each rank's slice go to it alone.
  __device__ void send_slices() const {
    for (std::uint32_t i = 2 * threadIdx.x; i < of_all_slices(); i += batch * stride()) {
      Two twos[batch];
      own(i, twos);
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        const auto to = static_cast<int>((i + b * stride()) / args.slice);
        const std::uint32_t at = i + b * stride() - static_cast<std::uint32_t>(to) * args.slice;
        if (to < args.ranks && to != args.rank && at < slice_sent(to)) {
          put(box(to, args.rank) + at, twos[b], number);
        }
      }
    }
    let_arrive();
  }
  /// A rank adds its slice, and tells all what it is, behind the places of the parts.
  __device__ void sum_slice() {
    const std::uint32_t first = slice_begin(args.rank);
    const std::uint32_t count = slice_sent(args.rank);
    for (std::uint32_t i = 2 * threadIdx.x; i < count; i += batch * stride()) {
      Two sums[batch] = {};
      add_up(first, i, count, sums);
      for (int turn = 1; turn < args.ranks; ++turn) {
        const int to = (args.rank + turn) % args.ranks;
        put_batch(box(to, args.rank) + args.slice, i, count, sums);
      }
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        store(first + i + b * stride(), first + slice_count(args.rank), sums[b]);
      }
    }
    let_arrive();
  }
  __device__ void take_slices() {
    for (std::uint32_t i = 2 * threadIdx.x; i < of_all_slices(); i += batch * stride()) {
      Two twos[batch] = {};
      const auto from = [&](int b) { return static_cast<int>((i + b * stride()) / args.slice); };
      const auto is_awaited = [&](int b) {
        const std::uint32_t at = i + b * stride() - static_cast<std::uint32_t>(from(b)) * args.slice;
        return from(b) < args.ranks && from(b) != args.rank && at < slice_sent(from(b));
      };
      wait_for([&](int b) {
        if (!is_awaited(b)) {
          return true;
        }
        const std::uint32_t at = i + b * stride() - static_cast<std::uint32_t>(from(b)) * args.slice;
        return look(box(args.rank, from(b)) + args.slice + at, number, twos[b]);
      });
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        if (is_awaited(b)) {
          store(i + b * stride(), slice_begin(from(b)) + slice_count(from(b)), twos[b]);
        }
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
      for (std::uint32_t i = 2 * threadIdx.x; i < count; i += batch * stride()) {
        Two twos[batch] = {};
        if (own_part) {
          own(i, twos);
        } else {
          take(box(args.rank, rank), i, count, twos);
        }
#pragma unroll
        for (int b = 0; b < batch; ++b) {
          place(twos[b], rank, i + b * stride(), column, width);
        }
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
    for (std::uint32_t i = 2 * threadIdx.x; i < count; i += stride()) {
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
  if (args.slice != 0) {
    round.send_slices();
    shake();
    round.sum_slice();
    shake();
    round.take_slices();
  } else {
    round.send();
    shake();
    if (args.gathers != 0) {
      round.gather();
    } else {
      round.sum();
    }
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
