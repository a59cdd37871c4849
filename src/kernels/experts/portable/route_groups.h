#pragma once

// The norm, the router's product and the choice of experts by the work-groups of a launch or of a part of one, for few
// tokens: see ops/experts.h, RouteRows. The work-groups of a token divide its logits; the last of them to arrive chooses.
// Weights are loaded before x is ready, and the products do not wait for the row's norm, which multiplies their sums.
//
// A work-group has `threads` threads, one or two times route_group_threads, and each route_group_threads of them take
// route_group_rows rows. So a logit has the same bits with either number. The first route_group_threads choose.

#include <cstddef>

#include "kernels/experts/portable/route.h"
#include "kernels/tile/arrival.h"

namespace rocmforge::gpu {

inline constexpr int route_waves = route_group_threads / wave_size;  // that choose
inline constexpr int route_shares = route_waves / route_group_rows;  // waves that share a row of the router
inline constexpr int route_stride = route_shares * wave_size;        // quads from one quad of a lane to its next
inline constexpr int route_together = 4;                             // quads of a lane loaded together
static_assert(route_shares >= 1);

struct RouteQuads {
  float4 values[route_together];
};
/// Quads `first`, `first` + route_stride and so on of a row of `quads`, zero behind its end.
__device__ inline RouteQuads load_quads(const float4* row, int first, int quads) {
  RouteQuads loaded;
#pragma unroll
  for (int i = 0; i < route_together; ++i) {
    const int quad = first + i * route_stride;
    loaded.values[i] = quad < quads ? row[quad] : float4{};
  }
  return loaded;
}

__device__ inline float dot(const float4& a, const float4& b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}
__device__ inline float4 product(const float4& a, const float4& b) {
  return float4{a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
}

__device__ inline const float4* router_row(const RouteRowsArgs& args, int row) {
  const float* rows = row < args.choice.experts ? args.router + std::int64_t{row} * args.hidden
                                                : args.shared_gates + std::int64_t{row - args.choice.experts} * args.hidden;
  return reinterpret_cast<const float4*>(rows);
}

/// Shared memory of the waves of a work-group. Keys are read by four.
template <int threads>
struct alignas(16) RouteGroup {
  RouteShared choice;
  std::int32_t candidates[most_experts];
  float sums[threads / wave_size];
  float squares[threads / wave_size];
  float largest[route_waves];
  float score_sums[route_waves];
};
static_assert(offsetof(RouteShared, keys) % 16 == 0 && offsetof(RouteShared, groups) % 16 == 0);

/// Whether the thread is one of those that choose.
template <int threads>
__device__ inline bool chooses() {
  static_assert(threads == route_group_threads || threads == 2 * route_group_threads);
  return threads == route_group_threads || thread_index() < route_group_threads;
}

/// Combines one value of each thread that chooses; the result is in every thread.
template <class Operation, int threads>
__device__ __forceinline__ float combine(float value, float (&of_waves)[route_waves]) {
  value = wave_reduce<Operation>(value);
  if (chooses<threads>() && lane_index() == 0) {
    of_waves[wave_index()] = value;
  }
  __syncthreads();
  value = of_waves[0];
#pragma unroll
  for (int i = 1; i < route_waves; ++i) {
    value = Operation::combine(value, of_waves[i]);
  }
  return value;
}

inline constexpr int most_of_thread = most_experts / route_group_threads;

/// A thread's experts have the numbers thread, thread + route_group_threads and so on.
template <int threads, class Work>
__device__ __forceinline__ void for_own_experts(int experts, const Work& work) {
#pragma unroll
  for (int i = 0; i < most_of_thread; ++i) {
    if (chooses<threads>() && i * route_group_threads < experts) {  // for some thread
      work(i, thread_index() + i * route_group_threads);
    }
  }
}

/// How many of `count` keys come before the one at `at`: larger ones, and equal ones of lower places. `count`: a multiple of
/// four.
__device__ inline int rank_of(const std::uint32_t* keys, int count, int at) {
  const auto* fours = reinterpret_cast<const uint4*>(keys);
  const std::uint32_t own = keys[at];
  int rank = 0;
#pragma unroll 8
  for (int i = 0; i < count / 4; ++i) {
    const uint4 four = fours[i];
    const std::uint32_t least = i < at / 4 ? own : own + 1;
    rank += (four.x >= least) + (four.y >= least) + (four.z >= least) + (four.w >= least);
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) {  // of its own four
    rank += i < at % 4 && keys[at / 4 * 4 + i] == own ? 1 : 0;
  }
  return rank;
}

/// Writes the scores and keys of all experts, and of the numbers after them up to a whole round of threads.
template <int threads>
__device__ __forceinline__ void write_scores(const RouteChoice& choice, const float* logits, RouteGroup<threads>& shared) {
  float scores[most_of_thread];
  float largest = -infinity;
  for_own_experts<threads>(choice.experts, [&](int i, int e) {
    scores[i] = e < choice.experts ? logits[e] : -infinity;
    largest = fmaxf(largest, scores[i]);
  });
  if (choice.score == 0) {
    largest = combine<Max, threads>(largest, shared.largest);
    float sum = 0.0f;
    for_own_experts<threads>(choice.experts, [&](int i, int e) {
      scores[i] = expf(scores[i] - largest);
      sum += e < choice.experts ? scores[i] : 0.0f;
    });
    sum = combine<Sum, threads>(sum, shared.score_sums);
    for_own_experts<threads>(choice.experts, [&](int i, int) { scores[i] /= sum; });
  } else if (choice.score == 1) {
    for_own_experts<threads>(choice.experts, [&](int i, int) { scores[i] = 1.0f / (1.0f + expf(-scores[i])); });
  }
  for_own_experts<threads>(choice.experts, [&](int i, int e) {
    shared.choice.scores[e] = scores[i];
    shared.choice.keys[e] = e < choice.experts ? ordered(choice_of(choice, shared.choice, e)) : 0;
  });
  __syncthreads();
}

/// As choose_experts(), by a work-group. A wave ranks the experts of its lanes, of which at most `used` can be chosen; then
/// those of all waves are ranked.
template <int threads>
__device__ __forceinline__ void choose_together(const RouteChoice& choice, const float* logits, std::int64_t token,
                                                RouteGroup<threads>& shared) {
  std::int32_t* ids = choice.ids + token * (choice.used + choice.shared);
  float* weights = choice.weights + token * (choice.used + choice.shared);
  if (wave_index() == route_waves - 1) {
    add_shared(choice, logits, ids, weights);
  }
  write_scores(choice, logits, shared);
  if (choice.groups > 1) {
    if (wave_index() == 0) {
      choose_groups(choice, shared.choice);
    }
    __syncthreads();
  }
  std::uint32_t* keys = shared.choice.groups;  // of the candidates: a wave's in their order, then those of the next
  const int each = min(choice.used, wave_size);
  const int padded = (each + 3) / 4 * 4;
  const int waves = (choice.experts + wave_size - 1) / wave_size;
  for_own_experts<threads>(choice.experts, [&](int, int e) {
    const int wave = e / wave_size;
    const int rank = wave < waves ? rank_of(shared.choice.keys + wave * wave_size, wave_size, e % wave_size) : padded;
    if (rank < padded) {
      keys[wave * padded + rank] = rank < each ? shared.choice.keys[e] : 0;
      shared.candidates[wave * padded + rank] = e;
    }
  });
  __syncthreads();
  for (int at = thread_index(); at < waves * padded; at += threads) {
    if (const int rank = rank_of(keys, waves * padded, at); rank < choice.used) {
      const int e = shared.candidates[at];
      ids[rank] = e;
      shared.choice.chosen[rank] = shared.choice.scores[e];
    }
  }
  __syncthreads();
  if (wave_index() == 0) {
    write_weights(choice, weights, shared.choice);
  }
}

/// Work-group `group` of those that `token` has. `begin_reading` is called when the weights are on their way: behind
/// it x is ready. `is_last(counter)` is last_to_arrive() of the token's work-groups.
template <int threads, class Begin, class Last>
__device__ __forceinline__ void route_rows(const RouteGroupsArgs& groups, int group, std::int64_t token,
                                           RouteGroup<threads>& shared, const Begin& begin_reading, const Last& is_last) {
  constexpr int group_rows = route_group_rows * threads / route_group_threads;
  const RouteRowsArgs& args = groups.rows;
  const int rows = args.choice.experts + (args.shared_gates != nullptr ? args.choice.shared : 0);
  const int first_row = group * group_rows;
  const int quads = args.hidden / 4;
  const auto* x = reinterpret_cast<const float4*>(args.x + token * args.hidden);
  const auto* norms = reinterpret_cast<const float4*>(args.norm);

  const float4* row = router_row(args, min(first_row + wave_index() / route_shares, rows - 1));
  int quad = wave_index() % route_shares * wave_size + lane_index();
  RouteQuads weight = load_quads(row, quad, quads);
  RouteQuads norm = load_quads(norms, quad, quads);
  begin_reading();
  RouteQuads values = load_quads(x, quad, quads);
  // The normed row is shared out too: its quads from `begin` to `end`, of which each thread mostly has one.
  const int begin = group * groups.normed_quads + thread_index();
  const int end = min((group + 1) * groups.normed_quads, quads);
  const float4 first = begin < end ? product(x[begin], norms[begin]) : float4{};
  float sum = 0.0f;
  float square = 0.0f;
  for (int left = quads; true; left -= route_together * route_stride) {
#pragma unroll
    for (int i = 0; i < route_together; ++i) {
      square = dot(values.values[i], values.values[i], square);
      sum = dot(weight.values[i], product(values.values[i], norm.values[i]), sum);
    }
    if (left <= route_together * route_stride) {
      break;
    }
    quad += route_together * route_stride;
    weight = load_quads(row, quad, quads);
    norm = load_quads(norms, quad, quads);
    values = load_quads(x, quad, quads);
  }
  sum = wave_reduce<Sum>(sum);
  square = wave_reduce<Sum>(square);
  if (lane_index() == 0) {
    shared.sums[wave_index()] = sum;
    shared.squares[wave_index()] = square;
  }
  __syncthreads();
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < route_shares; ++i) {
    squares += shared.squares[i];
  }
  const float factor = 1.0f / sqrtf(squares / static_cast<float>(args.hidden) + args.eps);
  if (const int own = thread_index(); own < group_rows && first_row + own < rows) {
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < route_shares; ++i) {
      logit += shared.sums[own * route_shares + i];
    }
    logit *= factor;
    const bool has_bias = args.router_bias != nullptr && first_row + own < args.choice.experts;
    groups.logits[token * rows + first_row + own] = has_bias ? logit + args.router_bias[first_row + own] : logit;
  }
  const bool last = is_last(groups.counters + token);
  auto* normed = reinterpret_cast<float4*>(args.normed + token * args.hidden);
  for (int i = begin; i < end; i += threads) {
    normed[i] = product(i == begin ? first : product(x[i], norms[i]), float4{factor, factor, factor, factor});
  }
  if (last) {
    choose_together(args.choice, groups.logits + token * rows, token, shared);
  }
}

}  // namespace rocmforge::gpu
