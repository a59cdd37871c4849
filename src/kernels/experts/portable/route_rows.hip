// The norm, the router's product and the choice of experts in one launch, for few tokens: see ops/experts.h, RouteRows. The
// work-groups of a token divide its logits; the last of them to arrive chooses. Weights are loaded before x is ready, and
// the products do not wait for the row's norm, which multiplies their sums.

#include <cstddef>

#include "kernels/experts/portable/route.h"
#include "kernels/tile/arrival.h"

using rocmforge::gpu::RouteGroupsArgs;

namespace rocmforge::gpu {
namespace {

constexpr int route_waves = route_group_threads / wave_size;
constexpr int route_shares = route_waves / route_group_rows;  // waves that share a row of the router
constexpr int route_stride = route_shares * wave_size;        // quads from one quad of a lane to its next
constexpr int route_together = 4;                             // quads of a lane loaded together
static_assert(route_shares >= 1);

struct RouteQuads {
  float4 values[route_together];
};
/// Quads `first`, `first` + route_stride and so on of a row of `quads`, zero behind its end.
__device__ RouteQuads load_quads(const float4* row, int first, int quads) {
  RouteQuads loaded;
#pragma unroll
  for (int i = 0; i < route_together; ++i) {
    const int quad = first + i * route_stride;
    loaded.values[i] = quad < quads ? row[quad] : float4{};
  }
  return loaded;
}

__device__ float dot(const float4& a, const float4& b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}
__device__ float4 product(const float4& a, const float4& b) { return float4{a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }

__device__ const float4* router_row(const RouteRowsArgs& args, int row) {
  const float* rows = row < args.choice.experts ? args.router + std::int64_t{row} * args.hidden
                                                : args.shared_gates + std::int64_t{row - args.choice.experts} * args.hidden;
  return reinterpret_cast<const float4*>(rows);
}

/// Shared memory of the waves of a work-group. Keys are read by four.
struct alignas(16) RouteGroup {
  RouteShared choice;
  std::int32_t candidates[most_experts];
  float sums[route_waves];
  float squares[route_waves];
  float largest[route_waves];
  float score_sums[route_waves];
};
static_assert(offsetof(RouteShared, keys) % 16 == 0 && offsetof(RouteShared, groups) % 16 == 0);

/// Combines one value of each thread; the result is in every thread.
template <class Operation>
__device__ float combine(float value, float (&of_waves)[route_waves]) {
  value = wave_reduce<Operation>(value);
  if (lane_index() == 0) {
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

constexpr int most_of_thread = most_experts / route_group_threads;

/// A thread's experts have the numbers thread, thread + route_group_threads and so on.
template <class Work>
__device__ void for_own_experts(int experts, const Work& work) {
#pragma unroll
  for (int i = 0; i < most_of_thread; ++i) {
    if (i * route_group_threads < experts) {  // for some thread
      work(i, thread_index() + i * route_group_threads);
    }
  }
}

/// How many of `count` keys come before the one at `at`: larger ones, and equal ones of lower places. `count`: a multiple of
/// four.
__device__ int rank_of(const std::uint32_t* keys, int count, int at) {
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
__device__ void write_scores(const RouteChoice& choice, const float* logits, RouteGroup& shared) {
  float scores[most_of_thread];
  float largest = -infinity;
  for_own_experts(choice.experts, [&](int i, int e) {
    scores[i] = e < choice.experts ? logits[e] : -infinity;
    largest = fmaxf(largest, scores[i]);
  });
  if (choice.score == 0) {
    largest = combine<Max>(largest, shared.largest);
    float sum = 0.0f;
    for_own_experts(choice.experts, [&](int i, int e) {
      scores[i] = expf(scores[i] - largest);
      sum += e < choice.experts ? scores[i] : 0.0f;
    });
    sum = combine<Sum>(sum, shared.score_sums);
    for_own_experts(choice.experts, [&](int i, int) { scores[i] /= sum; });
  } else if (choice.score == 1) {
    for_own_experts(choice.experts, [&](int i, int) { scores[i] = 1.0f / (1.0f + expf(-scores[i])); });
  }
  for_own_experts(choice.experts, [&](int i, int e) {
    shared.choice.scores[e] = scores[i];
    shared.choice.keys[e] = e < choice.experts ? ordered(choice_of(choice, shared.choice, e)) : 0;
  });
  __syncthreads();
}

/// As choose_experts(), by a work-group. A wave ranks the experts of its lanes, of which at most `used` can be chosen; then
/// those of all waves are ranked.
__device__ void choose_together(const RouteChoice& choice, const float* logits, std::int64_t token, RouteGroup& shared) {
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
  for_own_experts(choice.experts, [&](int, int e) {
    const int wave = e / wave_size;
    const int rank = wave < waves ? rank_of(shared.choice.keys + wave * wave_size, wave_size, e % wave_size) : padded;
    if (rank < padded) {
      keys[wave * padded + rank] = rank < each ? shared.choice.keys[e] : 0;
      shared.candidates[wave * padded + rank] = e;
    }
  });
  __syncthreads();
  for (int at = thread_index(); at < waves * padded; at += route_group_threads) {
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

__device__ void route_rows(const RouteGroupsArgs& groups) {
  __shared__ RouteGroup shared;
  const RouteRowsArgs& args = groups.rows;
  const auto token = static_cast<std::int64_t>(blockIdx.y);
  const int rows = args.choice.experts + (args.shared_gates != nullptr ? args.choice.shared : 0);
  const int first_row = static_cast<int>(blockIdx.x) * route_group_rows;
  const int quads = args.hidden / 4;
  const auto* x = reinterpret_cast<const float4*>(args.x + token * args.hidden);
  const auto* norms = reinterpret_cast<const float4*>(args.norm);

  const float4* row = router_row(args, min(first_row + wave_index() / route_shares, rows - 1));
  int quad = wave_index() % route_shares * wave_size + lane_index();
  RouteQuads weight = load_quads(row, quad, quads);
  RouteQuads norm = load_quads(norms, quad, quads);
  begin_dependent();
  RouteQuads values = load_quads(x, quad, quads);
  // The normed row is shared out too: its quads from `begin` to `end`, of which each thread mostly has one.
  const int begin = static_cast<int>(blockIdx.x) * groups.normed_quads + thread_index();
  const int end = min(static_cast<int>(blockIdx.x + 1) * groups.normed_quads, quads);
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
  if (const int own = thread_index(); own < route_group_rows && first_row + own < rows) {
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < route_shares; ++i) {
      logit += shared.sums[own * route_shares + i];
    }
    logit *= factor;
    const bool has_bias = args.router_bias != nullptr && first_row + own < args.choice.experts;
    groups.logits[token * rows + first_row + own] = has_bias ? logit + args.router_bias[first_row + own] : logit;
  }
  const bool last = last_to_arrive(groups.counters + token, static_cast<int>(gridDim.x));
  auto* normed = reinterpret_cast<float4*>(args.normed + token * args.hidden);
  for (int i = begin; i < end; i += route_group_threads) {
    normed[i] = product(i == begin ? first : product(x[i], norms[i]), float4{factor, factor, factor, factor});
  }
  if (last) {
    choose_together(args.choice, groups.logits + token * rows, token, shared);
  }
}

}  // namespace
}  // namespace rocmforge::gpu

ROCMFORGE_KERNEL __launch_bounds__(rocmforge::gpu::route_group_threads) route_rows(RouteGroupsArgs args) {
  rocmforge::gpu::route_rows(args);
}
