// Ranks that share a model: the sum of parts that lie in this device's memory, and the exchange of parts with other devices
// (docs/kernels/rank_exchange.md).

#include "kernels/rows/portable/ranks_args.h"
#include "kernels/tile/device_memory.h"
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
/// Each element is a store of its own, past all caches.
__device__ inline void put(BoxElement* to, Two two, std::uint32_t round) {
  __hip_atomic_store(device_memory(to), marked(two.values[0], round), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  __hip_atomic_store(device_memory(to) + 1, marked(two.values[1], round), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

__device__ inline bool look(const BoxElement* from, std::uint32_t round, Two& two) {
  const BoxElement first = __hip_atomic_load(device_memory(from), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  const BoxElement second = __hip_atomic_load(device_memory(from) + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  two = {{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)}};
  return static_cast<std::uint32_t>(first >> 32) == round && static_cast<std::uint32_t>(second >> 32) == round;
}

__device__ inline bool is_set(const std::uint32_t* flag) {
  return __hip_atomic_load(device_memory(flag), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) != 0;
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
  /// The turn-th rank behind this one: not all write to one at the same time.
  __device__ int behind(int turn) const { return (args.rank + turn) % args.ranks; }
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
        const int to = behind(turn);
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
  /// The sum of pair i of all parts in the order of the ranks. Those of the others lie at place i of their parts of the own box.
  __device__ Two sum_of_all(Two mine, std::uint32_t i) {
    float sums[2] = {};
    for (int first = 0; first < args.ranks; first += batch) {
      Two twos[batch] = {};
      wait_for([&](int b) {
        const int rank = first + b;
        return rank >= args.ranks || rank == args.rank || look(box(args.rank, rank) + i, number, twos[b]);
      });
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        const Two two = first + b == args.rank ? mine : twos[b];
#pragma unroll
        for (int e = 0; e < 2 && first + b < args.ranks; ++e) {
          const float value = __builtin_bit_cast(float, two.values[e]);
          sums[e] = first + b == 0 ? value : sums[e] + value;
        }
      }
    }
    return {{__builtin_bit_cast(std::uint32_t, sums[0]), __builtin_bit_cast(std::uint32_t, sums[1])}};
  }

  __device__ void sum() {
    const std::uint32_t count = elements(args.rank);
    if (args.ranks == 2) {
      sum_two(count);
      return;
    }
    for (std::uint32_t i = 2 * threadIdx.x; i < count; i += stride()) {
      store(i, count, sum_of_all(own(i), i));
    }
  }
  /// The order of two does not matter. Their sums are the ones with several pairs a thread.
  __device__ void sum_two(std::uint32_t count) {
    for (std::uint32_t i = 2 * threadIdx.x; i < count; i += batch * stride()) {
      Two mine[batch];
      Two other[batch] = {};
      own(i, mine);
      take(box(args.rank, 1 - args.rank), i, count, other);
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        Two sums{};
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float sum = __builtin_bit_cast(float, mine[b].values[e]) + __builtin_bit_cast(float, other[b].values[e]);
          sums.values[e] = __builtin_bit_cast(std::uint32_t, sum);
        }
        store(i + b * stride(), count, sums);
      }
    }
  }

  __device__ std::uint32_t slice_begin(int rank) const {
    return min(static_cast<std::uint32_t>(rank) * args.slice, elements(args.rank));
  }
  __device__ std::uint32_t slice_count(int rank) const { return min(args.slice, elements(args.rank) - slice_begin(rank)); }
  /// What is written of a slice, since a rank without one tells that it has come here.
  __device__ std::uint32_t slice_sent(int rank) const { return max(slice_count(rank), 1u); }
  /// Each rank gets its slice of the parts, adds it, and tells all what it is, at places behind those of the parts. A thread
  /// waits for the pairs that its like of the other ranks have written, so that no wave waits for another one of its own group.
  __device__ void sum_in_slices() {
    for (std::uint32_t i = 2 * threadIdx.x; i < args.slice; i += stride()) {
      for (int first = 1; first < args.ranks; first += batch) {
        send_slices(i, first);
      }
    }
    let_arrive();
    shake();
    const std::uint32_t begin = slice_begin(args.rank);
    for (std::uint32_t i = 2 * threadIdx.x; i < slice_sent(args.rank); i += stride()) {
      const Two sum = sum_of_all(own(begin + i), i);
      for (int turn = 1; turn < args.ranks; ++turn) {
        put(box(behind(turn), args.rank) + args.slice + i, sum, number);
      }
      store(begin + i, begin + slice_count(args.rank), sum);
    }
    let_arrive();
    shake();
    for (std::uint32_t i = 2 * threadIdx.x; i < args.slice; i += stride()) {
      for (int first = 1; first < args.ranks; first += batch) {
        take_slices(i, first);
      }
    }
  }
  __device__ void send_slices(std::uint32_t i, int first) const {
    Two twos[batch] = {};
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (first + b < args.ranks) {
        twos[b] = own(slice_begin(behind(first + b)) + i);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int to = behind(first + b);
      if (first + b < args.ranks && i < slice_sent(to)) {
        put(box(to, args.rank) + i, twos[b], number);
      }
    }
  }
  __device__ void take_slices(std::uint32_t i, int first) {
    Two twos[batch] = {};
    const auto is_awaited = [&](int b) { return first + b < args.ranks && i < slice_sent(behind(first + b)); };
    wait_for([&](int b) {
      return !is_awaited(b) || look(box(args.rank, behind(first + b)) + args.slice + i, number, twos[b]);
    });
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (is_awaited(b)) {
        const int from = behind(first + b);
        store(slice_begin(from) + i, slice_begin(from) + slice_count(from), twos[b]);
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
    round.sum_in_slices();
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
