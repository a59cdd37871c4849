// Products of quantised weights with 9 to 32 tokens and rows of up to 8 segments, where all data that a multiprocessor reads
// fit into its shared memory at once: matmul_cluster_TOKENS. A work-group takes a tile of 128 rows (with a gate 64 of each
// weight) and a segment of k. It copies its weights before the predecessor has ended, and normalises and converts its
// activations itself. The segments of a tile are a cluster, whose work-groups add up their sums through each other's shared
// memory: only outputs go through device memory. One launch takes weights of any formats.

#include "kernels/matmul/hopper/matmul_activations.h"
#include "kernels/matmul/hopper/matmul_cluster_args.h"
#include "kernels/matmul/hopper/matmul_tiles_parts.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/cluster.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/registers.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/hopper/wgmma.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {
namespace {

constexpr int warps = cluster_warps;
constexpr int consumers = cluster_threads / warpgroup_size;
static_assert(consumers * 64 == cluster_tile_rows);

/// The rows of a warpgroup.
struct ClusterRows {
  int part;
  int row;  ///< the first one
};
__device__ inline ClusterRows cluster_rows(const MatmulClusterArgs& args, int tile, int consumer) {
  if (args.gate != Gate::none) {
    return {consumer, tile * 64};
  }
  int part = 0;
  while (part + 1 < args.num_parts && tile >= args.parts[part + 1].first_tile) {
    ++part;
  }
  return {part, (tile - args.parts[part].first_tile) * cluster_tile_rows + consumer * 64};
}

/// Copies the segment of the weights of 16 rows for each warp; by one warp.
__device__ inline void copy_weights(const MatmulClusterArgs& args, char* weights, std::uint64_t* barrier, int lane) {
  const std::uint8_t* from = nullptr;
  std::uint32_t bytes = 0;
  if (lane < warps) {
    const ClusterRows rows = cluster_rows(args, static_cast<int>(blockIdx.y), lane / 4);
    const MatmulClusterPart& part = args.parts[rows.part];
    const int tile = rows.row / weight_tile_rows + lane % 4;
    if (tile * weight_tile_rows < part.n) {
      const std::int64_t segment = cluster_weight_bytes(part.format);
      const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * segment;
      from = part.weight + tile * part.tile_bytes + first;
      bytes = static_cast<std::uint32_t>(min(segment, part.tile_bytes - first));
    }
  }
  if (from != nullptr) {
    barrier_expect(barrier, bytes);
    copy_bytes(weights + lane * args.weight_bytes, from, bytes, barrier);
  } else if (lane < warps) {
    barrier_arrive(barrier);
  }
}

/// Loads a segment of the activations to shared memory, with its scales and sums of squares by token. A warp has every 8th
/// token and reads some of them together.
template <int tokens>
__device__ inline void convert_segment(const MatmulClusterArgs& args, char* boxes, float* scales, float* sums, int warp,
                                       int lane) {
  constexpr int batch = tokens == 16 ? 2 : 4;
  constexpr int parts = cluster_segment_columns / 256;
  const int first = static_cast<int>(blockIdx.x) * cluster_segment_columns + lane * 8;
#pragma unroll 1
  for (int token = warp; token < tokens; token += warps * batch) {
    Columns columns[batch][parts];
    float most[batch] = {};
    float squared[batch] = {};
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int t = token + b * warps;
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        columns[b][i] = t < args.tokens
                            ? load_columns(args.x + t * args.x_stride, first + i * 256, args.k, args.x_aligned != 0)
                            : Columns{};
      }
    }
    if (args.norm_weight != nullptr) {
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        const Columns weights = load_columns(args.norm_weight, first + i * 256, args.k, args.x_aligned != 0);
#pragma unroll
        for (int b = 0; b < batch; ++b) {
          squared[b] += squares(columns[b][i]);
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            columns[b][i].x[j] *= weights.x[j];
          }
        }
      }
    }
    float factors[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        most[b] = fmaxf(most[b], largest(columns[b][i]));
      }
      most[b] = gpu::wave_reduce<gpu::Max>(most[b]);
      squared[b] = gpu::wave_reduce<gpu::Sum>(squared[b]);
      // 2^(exponent - 14), so that the largest number falls between 2^14 and 2^15: small ones keep their bits, too.
      const std::uint32_t exponent = __float_as_uint(most[b]) & 0x7f800000u;
      const bool scaled = exponent > (14u << 23) && most[b] < gpu::infinity;
      const float scale = scaled ? __uint_as_float(exponent - (14u << 23)) : 1.0f;
      factors[b] = 1.0f / scale;
      if (lane == 0 && token + b * warps < tokens) {
        scales[token + b * warps] = scale;
        sums[token + b * warps] = squared[b];
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int t = token + b * warps;
#pragma unroll
      for (int i = 0; i < parts; ++i) {
        const int at = i * 256 + lane * 8;
        const uint4 chunk = chunk_of(columns[b][i], factors[b], at);
        if (t < tokens) {
          *reinterpret_cast<uint4*>(boxes + chunk_place(0, tokens, t, at)) = chunk;
        }
      }
    }
  }
}

/// The 16 rows of a warp times the segment, of which `groups` of 128 columns exist.
template <WeightFormat format, int tokens>
__device__ __forceinline__ void multiply_segment(std::uint32_t weights, const char* boxes, int groups, int lane,
                                                 float (&sums)[tokens / 2]) {
  constexpr WeightLayout layout = weight_layout(format);
  constexpr int groups_of_record = layout.elems / weight_group_elems;
  constexpr int box_bytes = tokens * tiles_box_columns * 2;
  LaneWeights<format> own;
  std::uint32_t operands[2][2][2][4];  // [box % 2][block of the box][step]
  const auto multiply_box = [&]<int half>(int box) {
    own.template dequantize<2 * half>(operands[half][0]);
    own.template dequantize<2 * half + 1>(operands[half][1]);
    const std::uint64_t x = operand(boxes + box * box_bytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      multiply_registers(sums, operands[half][step / 2][step % 2], advance(x, step * 32));
    }
    wgmma_commit();
    wgmma_wait<1>();  // all but this one: the other operands are free
  };
#pragma unroll 1
  for (int group = 0; group < groups; ++group) {
    own.load(weights + static_cast<std::uint32_t>(group / groups_of_record * layout.record_bytes), group % groups_of_record,
             lane);
    multiply_box.template operator()<0>(2 * group);
    multiply_box.template operator()<1>(2 * group + 1);
  }
  wgmma_wait<0>();
}

/// The sum of the values at `place` in the work-groups of a cluster, in the order of their segments.
template <class T>
__device__ inline T gather(const T* place, int ranks) {
  T parts[most_cluster_ranks];
#pragma unroll
  for (int s = 0; s < most_cluster_ranks; ++s) {
    parts[s] = s < ranks ? load_cluster(place, static_cast<std::uint32_t>(s)) : T{};
  }
  T sum = parts[0];
#pragma unroll
  for (int s = 1; s < most_cluster_ranks; ++s) {
    sum = plus(sum, parts[s]);
  }
  return sum;
}

/// Adds up the sums of all segments for this work-group's share of the tile, and writes the outputs. A thread has four rows
/// of a token at a time.
template <int tokens>
__device__ inline void join_segments(const MatmulClusterArgs& args, const float* sums, const float* squared, int thread) {
  const auto ranks = static_cast<int>(gridDim.x);
  const bool gated = args.gate != Gate::none;
  const ClusterRows rows = cluster_rows(args, static_cast<int>(blockIdx.y), 0);
  const MatmulClusterPart& part = args.parts[rows.part];
  const float* const up_biases = args.parts[1].bias;
  const int quads = (gated ? 64 : cluster_tile_rows) / 4;
  const int total = quads * min(tokens, args.tokens);
  const auto bound = [&](int rank) { return total * rank / ranks; };
  const int end = bound(static_cast<int>(blockIdx.x) + 1);
  const bool aligned = part.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(part.out) % 16 == 0;
  const float4 zero{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
  for (int i = bound(static_cast<int>(blockIdx.x)) + thread; i < end; i += cluster_threads) {
    const int token = i / quads;
    const int local = i % quads * 4;
    const int row = rows.row + local;
    const int count = part.n - row;
    if (count <= 0) {
      continue;
    }
    const bool full = count >= 4 && aligned;
    float* const out = part.out + token * part.stride + row;
    const float4 before = part.store == TilesStore::add ? load_rows(out, count, full) : zero;
    const float4 bias = part.bias != nullptr ? load_rows(part.bias + row, count, false) : zero;
    const float* const from = sums + token * cluster_row_stride + local;
    float factor = 1.0f;
    if (args.norm_weight != nullptr) {
      factor = rsqrtf(gather(squared + token, ranks) / static_cast<float>(args.k) + args.norm_epsilon);
    }
    float4 y = finished(gather(reinterpret_cast<const float4*>(from), ranks), factor, bias);
    if (gated) {
      const float4 up_bias = up_biases != nullptr ? load_rows(up_biases + row, count, false) : zero;
      const float4 up = finished(gather(reinterpret_cast<const float4*>(from + 64), ranks), factor, up_bias);
      y = {activate(args.gate, y.x) * up.x, activate(args.gate, y.y) * up.y, activate(args.gate, y.z) * up.z,
           activate(args.gate, y.w) * up.w};
    }
    store_rows(out, plus(before, y), count, full);
  }
}

template <int tokens>
__device__ inline void multiply_cluster(const MatmulClusterArgs& args) {
  extern __shared__ char memory[];
  char* const boxes = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(memory) + 1023) / 1024 * 1024);
  const ClusterShared shared = cluster_shared(tokens, args.weight_bytes);
  auto* const scales = reinterpret_cast<float*>(boxes + shared.scales);
  auto* const squared = reinterpret_cast<float*>(boxes + shared.squares);
  auto* const barrier = reinterpret_cast<std::uint64_t*>(boxes + shared.barrier);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  if (warp == 0) {
    if (lane == 0) {
      barrier_init(barrier, cluster_weights_arrivals);
      barrier_init_fence();
    }
    __syncwarp();
    copy_weights(args, boxes + shared.weights, barrier, lane);
  }
  gpu::release_successor();
  gpu::wait_for_predecessor();
  convert_segment<tokens>(args, boxes, scales, squared, warp, lane);
  async_proxy_fence();
  __syncthreads();
  const int consumer = warp / 4;
  const WeightFormat format = args.parts[cluster_rows(args, static_cast<int>(blockIdx.y), consumer).part].format;
  const int columns = min(cluster_segment_columns, args.k - static_cast<int>(blockIdx.x) * cluster_segment_columns);
  const int groups = (columns + weight_group_elems - 1) / weight_group_elems;
  const std::uint32_t weights = shared_address(boxes + shared.weights + warp * args.weight_bytes);
  float sums[tokens / 2] = {};
  barrier_wait(barrier, 0);
  switch (format) {
#define ROCMFORGE_MULTIPLY(name)                                                      \
  case WeightFormat::name:                                                            \
    multiply_segment<WeightFormat::name, tokens>(weights, boxes, groups, lane, sums); \
    break;
    ROCMFORGE_HOPPER_FORMATS(ROCMFORGE_MULTIPLY)
#undef ROCMFORGE_MULTIPLY
    default:
      break;
  }
  keep(sums);
  __syncthreads();  // the activations are not read any more
  auto* const waiting = reinterpret_cast<float*>(boxes);
  const int row = warp * weight_tile_rows + lane / 4;
#pragma unroll
  for (int i = 0; i < tokens / 2; ++i) {
    const int token = i / 4 * 8 + lane % 4 * 2 + i % 2;
    waiting[token * cluster_row_stride + row + i / 2 % 2 * 8] = sums[i] * scales[token];
  }
  cluster_arrive();
  cluster_wait();
  join_segments<tokens>(args, waiting, squared, thread);
  cluster_arrive_relaxed();  // others may still read here
  cluster_wait();
}

}  // namespace
}  // namespace rocmforge::hopper

#define ROCMFORGE_MATMUL_CLUSTER(tokens)                                                           \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::cluster_threads, 2)              \
      matmul_cluster_##tokens(const __grid_constant__ rocmforge::hopper::MatmulClusterArgs args) { \
    rocmforge::hopper::multiply_cluster<tokens>(args);                                             \
  }

ROCMFORGE_MATMUL_CLUSTER(16)
ROCMFORGE_MATMUL_CLUSTER(32)
