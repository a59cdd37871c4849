// The norm, the router's product and the choice of experts in one launch: route_rows, route_rows_held for routers of more
// rows than a cluster's registers take, and route_rows_4 for many tokens. A cluster of work-groups has one token or four.
// Each work-group normalises their rows and multiplies its part of the experts, whose rows it has read before the kernel
// that writes x ended; then each chooses for one token.

#include "kernels/experts/hopper/route_args.h"
#include "kernels/experts/portable/route.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/cluster.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/launch_order.h"

using rocmforge::hopper::RouteRowsArgs;

namespace rocmforge::hopper {
namespace {

/// A warp's part of the experts: experts [first, first + count) of the work-group, each shared out to `shares` warps.
struct RouteWork {
  int first;
  int count;
  int shares;
  int quads;  ///< of a row
  int held;   ///< rows in shared memory: of the units from route_rows_warps on

  __device__ RouteWork(const RouteRowsArgs& args, int rank) {
    const int rows = args.choice.experts + (args.shared_gates != nullptr ? args.choice.shared : 0);
    const int each = route_rank_experts(rows);
    first = min(rank * each, rows);
    count = min(each, rows - first);
    shares = each < route_rows_warps ? route_rows_warps / each : 1;
    quads = args.hidden / 4;
    held = max(min(route_held_rows(each, args.hidden), count - route_rows_warps), 0);
  }
};

/// Quads of a row that a lane loads before x is ready.
constexpr int quads_ahead = 16;

/// `holds`: work.held rows lie in shared memory.
template <bool holds>
struct RouteRows {
  const RouteRowsArgs& args;
  RouteWork work;
  int warp;
  int lane;
  float4* held;               ///< rows in shared memory
  std::uint64_t* barrier;     ///< of their copies
  float4 ahead[quads_ahead];  ///< of the warp's first part of a row

  [[nodiscard]] __device__ const float4* row_of(int unit) const {
    const int expert = work.first + unit / work.shares;
    const float* rows = expert < args.choice.experts
                            ? args.router + std::int64_t{expert} * args.hidden
                            : args.shared_gates + std::int64_t{expert - args.choice.experts} * args.hidden;
    return reinterpret_cast<const float4*>(rows);
  }
  /// The first quad of a lane in a unit; the next ones are `stride()` apart.
  [[nodiscard]] __device__ int first_quad(int unit) const { return unit % work.shares * 32 + lane; }
  [[nodiscard]] __device__ int stride() const { return work.shares * 32; }

  /// Copies the rows that shared memory holds; by one warp.
  __device__ void copy_held() const {
    const std::uint32_t bytes = static_cast<std::uint32_t>(args.hidden) * 4;
    if (lane == 0) {
      barrier_init(barrier, route_held_arrivals);
      barrier_init_fence();
      barrier_expect(barrier, static_cast<std::uint32_t>(work.held) * bytes);
    }
    __syncwarp();
    for (int i = lane; i < work.held; i += 32) {
      copy_bytes(held + i * work.quads, row_of(route_rows_warps + i), bytes, barrier);
    }
  }

  /// Prefetches the other rows into the L2 cache.
  __device__ void prefetch() const {
    const auto bytes = static_cast<std::uint32_t>(args.hidden) * 4;
    for (int unit = warp + route_rows_warps + (holds ? work.held : 0); lane == 0 && unit < work.count * work.shares;
         unit += route_rows_warps) {
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row_of(unit)), "r"(bytes) : "memory");
    }
  }

  __device__ void read_ahead() {
    const bool used = warp < work.count * work.shares;
    const float4* row = row_of(used ? warp : 0);
#pragma unroll
    for (int i = 0; i < quads_ahead; ++i) {
      const int quad = first_quad(warp) + i * stride();
      ahead[i] = used && quad < work.quads ? row[quad] : float4{};
    }
  }

  [[nodiscard]] __device__ static float dot(const float4& a, const float4& b, float sum) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
  }

  /// A unit's part of its expert's logit for each token, in every lane.
  template <int tokens>
  __device__ void multiply(int unit, const float4* x, float (&sums)[tokens]) const {
    const float4* row = row_of(unit);
    const auto add = [&](const float4& weights, int quad) {
#pragma unroll
      for (int t = 0; t < tokens; ++t) {
        sums[t] = dot(weights, x[t * work.quads + quad], sums[t]);
      }
    };
    int quad = first_quad(unit);
    if (unit == warp) {
#pragma unroll
      for (int i = 0; i < quads_ahead; ++i, quad += stride()) {
        if (quad < work.quads) {
          add(ahead[i], quad);
        }
      }
    }
    if constexpr (holds) {
      if (unit >= route_rows_warps && unit < route_rows_warps + work.held) {
        barrier_wait(barrier, 0);
        const float4* const own = held + (unit - route_rows_warps) * work.quads;
#pragma unroll 4
        for (; quad < work.quads; quad += stride()) {
          add(own[quad], quad);
        }
      }
    }
    constexpr int together = tokens == 1 ? 8 : 4;  // loads in flight at a time
    for (; quad < work.quads; quad += together * stride()) {
      float4 more[together];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        more[i] = quad + i * stride() < work.quads ? row[quad + i * stride()] : float4{};
      }
#pragma unroll
      for (int i = 0; i < together; ++i) {
        if (quad + i * stride() < work.quads) {
          add(more[i], quad + i * stride());
        }
      }
    }
#pragma unroll
    for (int t = 0; t < tokens; ++t) {
      sums[t] = gpu::wave_reduce<gpu::Sum>(sums[t]);
    }
  }
};

/// Shared memory of a work-group beside the rows.
template <int tokens>
struct RouteMemory {
  static constexpr int most_units = route_rows_warps > most_rank_experts ? route_rows_warps : most_rank_experts;
  float sums[tokens][most_units];
  float squares[tokens][route_rows_warps];
  float logits[gpu::most_experts];  ///< of the token that this work-group chooses for
  gpu::RouteShared choice;
};

/// Quads of a row of x that a thread loads together.
constexpr int quads_at_once(int tokens) { return tokens == 1 ? 2 : 1; }

/// The norm's weights for quads thread, thread + route_rows_threads and so on.
template <int tokens>
struct FirstNorms {
  float4 weights[quads_at_once(tokens)];

  __device__ FirstNorms(const RouteRowsArgs& args, int thread) {
#pragma unroll
    for (int i = 0; i < quads_at_once(tokens); ++i) {
      const int quad = thread + i * route_rows_threads;
      weights[i] = quad < args.hidden / 4 ? reinterpret_cast<const float4*>(args.norm)[quad] : float4{};
    }
  }
};

/// Normalises `count` rows to `x`, without the norm's factor, and to args.normed with it. Returns the factor of each row.
template <int tokens, class Rows>
__device__ void normalise(const Rows& rows, const FirstNorms<tokens>& first_norms, std::int64_t token, int count, int rank,
                          float4* x, RouteMemory<tokens>& memory, float (&factors)[tokens]) {
  const RouteRowsArgs& args = rows.args;
  const int quads = rows.work.quads;
  const int thread = static_cast<int>(threadIdx.x);
  const auto* norm = reinterpret_cast<const float4*>(args.norm);
  float squares[tokens] = {};
  constexpr int at_once = quads_at_once(tokens);
  for (int first = thread; first < quads; first += at_once * route_rows_threads) {
    float4 values[at_once][tokens];
    float4 weights[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int quad = first + i * route_rows_threads;
      weights[i] = first == thread ? first_norms.weights[i] : quad < quads ? norm[quad] : float4{};
#pragma unroll
      for (int t = 0; t < tokens; ++t) {
        values[i][t] =
            t < count && quad < quads ? reinterpret_cast<const float4*>(args.x + (token + t) * args.hidden)[quad] : float4{};
      }
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int quad = first + i * route_rows_threads;
      const float4& weight = weights[i];
#pragma unroll
      for (int t = 0; t < tokens && quad < quads; ++t) {
        const float4& value = values[i][t];
        x[t * quads + quad] = float4{value.x * weight.x, value.y * weight.y, value.z * weight.z, value.w * weight.w};
        squares[t] = Rows::dot(value, value, squares[t]);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    squares[t] = gpu::wave_reduce<gpu::Sum>(squares[t]);
    if (rows.lane == 0) {
      memory.squares[t][rows.warp] = squares[t];
    }
  }
  __syncthreads();
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    float total = 0.0f;
    for (int i = 0; i < route_rows_warps; ++i) {
      total += memory.squares[t][i];
    }
    factors[t] = 1.0f / sqrtf(total / static_cast<float>(args.hidden) + args.eps);
    auto* normed = reinterpret_cast<float4*>(args.normed + (token + t) * args.hidden);
    for (int quad = thread; t < count && quad < quads; quad += route_rows_threads) {
      if (quad % route_ranks == rank) {
        const float4 value = x[t * quads + quad];
        const float factor = factors[t];
        normed[quad] = float4{value.x * factor, value.y * factor, value.z * factor, value.w * factor};
      }
    }
  }
}

template <int tokens, bool holds>
__device__ void route_rows(const RouteRowsArgs& args) {
  static_assert(tokens <= route_ranks);
  extern __shared__ __align__(16) float4 x[];  // route_shared()
  __shared__ RouteMemory<tokens> memory;
  __shared__ std::uint64_t barrier;
  static_assert(sizeof(memory) + sizeof(barrier) <= route_other_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const int rank = static_cast<int>(blockIdx.x) % route_ranks;
  const std::int64_t token = static_cast<int>(blockIdx.x) / route_ranks * tokens;
  const int count = min(tokens, args.tokens - static_cast<int>(token));
  RouteRows<holds> rows{
      args, RouteWork(args, rank), thread / 32, thread % 32, x + route_shared(tokens, 0, args.hidden).held, &barrier, {}};
  cluster_arrive();
  if (holds && rows.warp == 0) {
    rows.copy_held();
  }
  rows.read_ahead();
  rows.prefetch();
  const FirstNorms<tokens> first_norms(args, thread);
  const bool has_bias =
      args.router_bias != nullptr && thread < rows.work.count && rows.work.first + thread < args.choice.experts;
  const float bias = has_bias ? args.router_bias[rows.work.first + thread] : 0.0f;
  if (args.choice.bias != nullptr && thread * 32 < args.choice.experts) {  // 128 bytes each
    asm volatile("prefetch.global.L2 [%0];" ::"l"(args.choice.bias + thread * 32));
  }
  gpu::begin_in_turn();

  float factors[tokens];
  normalise<tokens>(rows, first_norms, token, count, rank, x, memory, factors);
  const int units = rows.work.count * rows.work.shares;
  for (int unit = rows.warp; unit < units; unit += route_rows_warps) {
    float sums[tokens] = {};
    rows.multiply(unit, x, sums);
#pragma unroll
    for (int t = 0; t < tokens; ++t) {
      if (rows.lane == 0) {
        memory.sums[t][unit] = sums[t];
      }
    }
  }
  __syncthreads();
  cluster_wait();
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    if (thread < rows.work.count) {
      const int expert = rows.work.first + thread;
      float logit = memory.sums[t][thread * rows.work.shares];
      for (int i = 1; i < rows.work.shares; ++i) {
        logit += memory.sums[t][thread * rows.work.shares + i];
      }
      logit *= factors[t];  // the products do not wait for the row's norm
      store_cluster(&memory.logits[expert], t, has_bias ? logit + bias : logit);
    }
  }
  cluster_arrive();
  cluster_wait();
  if (rank < count && rows.warp == 0) {
    gpu::choose_experts(args.choice, memory.logits, token + rank, memory.choice);
  }
}

}  // namespace
}  // namespace rocmforge::hopper

extern "C" __global__ void __cluster_dims__(rocmforge::hopper::route_ranks, 1, 1)
    __launch_bounds__(rocmforge::hopper::route_rows_threads) route_rows(const __grid_constant__ RouteRowsArgs args) {
  rocmforge::hopper::route_rows<1, false>(args);
}

extern "C" __global__ void __cluster_dims__(rocmforge::hopper::route_ranks, 1, 1)
    __launch_bounds__(rocmforge::hopper::route_rows_threads) route_rows_held(const __grid_constant__ RouteRowsArgs args) {
  rocmforge::hopper::route_rows<1, true>(args);
}

extern "C" __global__ void __cluster_dims__(rocmforge::hopper::route_ranks, 1, 1)
    __launch_bounds__(rocmforge::hopper::route_rows_threads) route_rows_4(const __grid_constant__ RouteRowsArgs args) {
  rocmforge::hopper::route_rows<rocmforge::hopper::route_many_tokens, false>(args);
}
