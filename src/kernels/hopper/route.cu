// The norm, the router's product and the choice of experts in one launch: route_rows. A cluster of work-groups has a token:
// each normalises the row and multiplies its part of the experts, whose rows it has read before the kernel that writes x
// ended; the first one chooses.

#include "kernels/gpu/launch_order.h"
#include "kernels/gpu/route.h"
#include "kernels/hopper/route_args.h"
#include "kernels/hopper/tile.h"

using rocmforge::hopper::RouteRowsArgs;

namespace rocmforge::hopper {
namespace {

/// A warp's part of the experts: experts [first, first + count) of the work-group, each shared out to `shares` warps.
struct RouteWork {
  int first;
  int count;
  int shares;
  int quads;  ///< of a row

  __device__ explicit RouteWork(const RouteRowsArgs& args, int rank) {
    const int each = (args.choice.experts + route_ranks - 1) / route_ranks;
    first = min(rank * each, args.choice.experts);
    count = min(each, args.choice.experts - first);
    shares = each < route_rows_warps ? route_rows_warps / each : 1;
    quads = args.hidden / 4;
  }
};

/// Quads of a row that a lane holds before x is there.
constexpr int quads_ahead = 16;

struct RouteRows {
  const RouteRowsArgs& args;
  RouteWork work;
  int warp;
  int lane;
  float4 ahead[quads_ahead];  ///< of the warp's first part of a row

  [[nodiscard]] __device__ const float4* row_of(int unit) const {
    return reinterpret_cast<const float4*>(args.router + std::int64_t{work.first + unit / work.shares} * args.hidden);
  }
  /// The first quad of a lane in a unit; the next ones are `stride()` apart.
  [[nodiscard]] __device__ int first_quad(int unit) const { return unit % work.shares * 32 + lane; }
  [[nodiscard]] __device__ int stride() const { return work.shares * 32; }

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

  /// A unit's part of its expert's logit, in every lane.
  [[nodiscard]] __device__ float multiply(int unit, const float4* x) const {
    const float4* row = row_of(unit);
    float sum = 0.0f;
    int quad = first_quad(unit);
    if (unit == warp) {
#pragma unroll
      for (int i = 0; i < quads_ahead; ++i, quad += stride()) {
        sum = quad < work.quads ? dot(ahead[i], x[quad], sum) : sum;
      }
    }
    constexpr int together = 8;  // loads on their way at a time
    for (; quad < work.quads; quad += together * stride()) {
      float4 more[together];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        more[i] = quad + i * stride() < work.quads ? row[quad + i * stride()] : float4{};
      }
#pragma unroll
      for (int i = 0; i < together; ++i) {
        sum = quad + i * stride() < work.quads ? dot(more[i], x[quad + i * stride()], sum) : sum;
      }
    }
    return gpu::wave_reduce<gpu::Sum>(sum);
  }
};

}  // namespace
}  // namespace rocmforge::hopper

extern "C" __global__ void __cluster_dims__(rocmforge::hopper::route_ranks, 1, 1)
    __launch_bounds__(rocmforge::hopper::route_rows_threads) route_rows(const __grid_constant__ RouteRowsArgs args) {
  using namespace rocmforge;
  using namespace rocmforge::hopper;
  extern __shared__ __align__(16) float4 row[];
  __shared__ float sums[route_rows_warps > most_rank_experts ? route_rows_warps : most_rank_experts];
  __shared__ float scratch[route_rows_warps];
  __shared__ float logits[gpu::most_experts];
  __shared__ gpu::RouteShared choice;
  const int thread = static_cast<int>(threadIdx.x);
  const int rank = static_cast<int>(blockIdx.x) % route_ranks;
  const std::int64_t token = static_cast<int>(blockIdx.x) / route_ranks;
  RouteRows rows{args, RouteWork(args, rank), thread / 32, thread % 32, {}};
  const int quads = rows.work.quads;
  const auto* norm = reinterpret_cast<const float4*>(args.norm);
  cluster_arrive();
  rows.read_ahead();
  const float4 first_norm = thread < quads ? norm[thread] : float4{};
  gpu::begin_in_turn();

  const float4* x = reinterpret_cast<const float4*>(args.x + token * args.hidden);
  float squares = 0.0f;
  for (int quad = thread; quad < quads; quad += route_rows_threads) {
    const float4 value = x[quad];
    const float4 weight = quad == thread ? first_norm : norm[quad];
    row[quad] = float4{value.x * weight.x, value.y * weight.y, value.z * weight.z, value.w * weight.w};
    squares = RouteRows::dot(value, value, squares);
  }
  squares = gpu::wave_reduce<gpu::Sum>(squares);
  if (rows.lane == 0) {
    scratch[rows.warp] = squares;
  }
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i < route_rows_warps; ++i) {
    total += scratch[i];
  }
  const float factor = 1.0f / sqrtf(total / static_cast<float>(args.hidden) + args.eps);
  auto* normed = reinterpret_cast<float4*>(args.normed + token * args.hidden);
  for (int quad = thread; quad < quads; quad += route_rows_threads) {
    if (quad % route_ranks == rank) {
      const float4 value = row[quad];
      normed[quad] = float4{value.x * factor, value.y * factor, value.z * factor, value.w * factor};
    }
  }
  const int units = rows.work.count * rows.work.shares;
  for (int unit = rows.warp; unit < units; unit += route_rows_warps) {
    const float sum = rows.multiply(unit, row);
    if (rows.lane == 0) {
      sums[unit] = sum;
    }
  }
  __syncthreads();
  cluster_wait();
  if (thread < rows.work.count) {
    const int expert = rows.work.first + thread;
    float logit = sums[thread * rows.work.shares];
    for (int i = 1; i < rows.work.shares; ++i) {
      logit += sums[thread * rows.work.shares + i];
    }
    logit *= factor;  // the products do not wait for the row's norm
    store_cluster(&logits[expert], 0, args.router_bias != nullptr ? logit + args.router_bias[expert] : logit);
  }
  cluster_arrive();
  cluster_wait();
  if (rank == 0 && rows.warp == 0) {
    gpu::choose_experts(args.choice, logits, token, choice);
  }
}
