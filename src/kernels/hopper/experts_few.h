#pragma once

// Products of few slots of each expert, sorted by expert: a weight is read and dequantised once for up to 8 slots, which are
// the columns of mma.m16n8k16. A warp has 16 rows and all of k: records come by bulk copies into a ring of its own.

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/experts_finish.h"
#include "kernels/hopper/matmul_dequantize.h"

namespace rocmforge::hopper {

template <WeightFormat format>
struct FewWarp {
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr int groups = layout.elems / weight_group_elems;

  const ExpertFewArgs& args;
  const std::uint8_t* weight;  ///< of its 16 rows, null for none
  char* ring;
  std::uint64_t* barriers;
  int lane;

  __device__ void fetch(int record) const {
    const int at = record % args.ring;
    if (lane == 0) {
      barrier_expect(&barriers[at], layout.record_bytes);
      copy_bytes(ring + at * layout.record_bytes, weight + std::int64_t{record} * layout.record_bytes, layout.record_bytes,
                 &barriers[at]);
    }
  }

  __device__ void start() const {
    for (int record = 0; weight != nullptr && record < args.ring; ++record) {
      fetch(record);
    }
  }

  template <int s>
  __device__ static void multiply_block(const LaneWeights<format>& weights, std::uint32_t x, float (&sums)[4]) {
    std::uint32_t a[2][4];
    weights.template dequantize<s>(a);
    std::uint32_t b[4];
    load_shared(b, x + static_cast<std::uint32_t>(s * few_slots * 64));
    multiply<half>(sums, a[0], b[0], b[1]);
    multiply<half>(sums, a[1], b[2], b[3]);
  }

  /// All records times the tile's activations at `x`: rows lane / 4 and 8 further on, slots 2 (lane % 4) and the next.
  __device__ void run(std::uint32_t x, float (&total)[4]) const {
    int place = 0;
    std::uint32_t parity = 0;
    std::uint32_t columns = x + static_cast<std::uint32_t>(lane * 16);
    std::uint32_t scales = x + static_cast<std::uint32_t>(args.padded_columns * few_slots * 2 + lane % 4 * 8);
#pragma unroll 1
    for (int record = 0; record < args.records; ++record) {
      float sums[4] = {};
      barrier_wait(&barriers[place], parity);
#pragma unroll
      for (int group = 0; group < groups; ++group) {
        LaneWeights<format> weights;
        weights.load(shared_address(ring) + static_cast<std::uint32_t>(place * layout.record_bytes), group, lane);
        multiply_block<0>(weights, columns, sums);
        multiply_block<1>(weights, columns, sums);
        multiply_block<2>(weights, columns, sums);
        multiply_block<3>(weights, columns, sums);
        columns += 4 * few_slots * 64;
      }
      std::uint32_t pair[2];
      load_shared(pair, scales);
      scales += few_slots * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[i] = fmaf(sums[i], __uint_as_float(pair[i % 2]), total[i]);
      }
      __syncwarp();
      if (record + args.ring < args.records) {
        fetch(record + args.ring);
      }
      if (++place == args.ring) {
        place = 0;
        parity ^= 1;
      }
    }
  }
};

template <WeightFormat format, bool gated>
__device__ inline void expert_few(const ExpertFewArgs& args) {
  constexpr WeightLayout layout = weight_layout(format);
  constexpr int matrices = gated ? 2 : 1;
  constexpr int row_tiles = few_warps / matrices;  ///< of each matrix
  constexpr int rows = row_tiles * weight_tile_rows;
  extern __shared__ __align__(128) char memory[];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const ExpertFewShared shared = expert_few_shared(args.padded_columns, args.ring, layout.record_bytes);
  auto* sums = reinterpret_cast<float*>(memory + shared.sums);
  auto* x_barrier = reinterpret_cast<std::uint64_t*>(memory + shared.barriers);
  std::uint64_t* barriers = x_barrier + 1 + warp * args.ring;
  if (lane == 0) {
    for (int i = 0; i < args.ring; ++i) {
      barrier_init(&barriers[i], 1);
    }
    if (warp == 0) {
      barrier_init(x_barrier, 1);
    }
    barrier_init_fence();
  }
  __syncthreads();
  gpu::release_successor();
  if (args.chosen_before == 0) {
    gpu::wait_for_predecessor();
  }
  const int tile = static_cast<int>(blockIdx.y);
  if (tile >= __ldcg(args.work_count)) {
    gpu::wait_for_predecessor();
    return;
  }
  const int4 found = __ldcg(reinterpret_cast<const int4*>(args.work + tile));
  const gpu::ExpertTile work{found.x, found.y, found.z, 0};
  const int first_row = static_cast<int>(blockIdx.x) * rows;
  const int own_row = first_row + warp % row_tiles * weight_tile_rows;
  const std::uint8_t* weight = args.weights[warp / row_tiles] + work.expert * args.expert_bytes[warp / row_tiles] +
                               std::int64_t{own_row / weight_tile_rows} * args.records * layout.record_bytes;
  const FewWarp<format> own{args, own_row < args.n ? weight : nullptr,
                            memory + shared.ring + warp * args.ring * layout.record_bytes, barriers, lane};
  own.start();
  gpu::wait_for_predecessor();
  if (thread == 0) {
    const std::int64_t bytes = few_tile_bytes(args.padded_columns);
    barrier_expect(x_barrier, static_cast<std::uint32_t>(bytes));
    copy_bytes(memory, args.x + tile * bytes, static_cast<std::uint32_t>(bytes), x_barrier);
  }
  barrier_wait(x_barrier, 0);
  if (own.weight != nullptr) {
    float found_sums[4] = {};
    own.run(shared_address(memory), found_sums);
    float* to = sums + warp * few_slots * weight_tile_rows + lane % 4 * 2 * weight_tile_rows + lane / 4;
    to[0] = found_sums[0];
    to[weight_tile_rows] = found_sums[1];
    to[8] = found_sums[2];
    to[weight_tile_rows + 8] = found_sums[3];
  }
  __syncthreads();
  for (int i = thread; i < rows * work.count; i += few_warps * 32) {
    const int slot = i / rows;
    const int local = i % rows;
    const int row = first_row + local;
    if (row >= args.n) {
      continue;
    }
    const auto product = [&](int matrix) {
      const int from = matrix * row_tiles + local / weight_tile_rows;
      const float sum = sums[(from * few_slots + slot) * weight_tile_rows + local % weight_tile_rows];
      return finish_product(args.finish[matrix], work.expert, row, sum);
    };
    const float result = gated ? gpu::activate(args.activation, product(0), product(matrices - 1)) : product(0);
    args.out[static_cast<std::int64_t>(args.order[work.first + slot]) * args.n + row] = result;
  }
}

}  // namespace rocmforge::hopper
