#pragma once

// Products of few slots of each expert, sorted by expert: a weight is read and made a number once for up to 8 slots, which
// are the columns of mma.m16n8k16. A warp has 16 rows and all of k: units come by bulk copies into a ring of its own.
//
// Up to eight tokens a row's sums are those of experts_vectors.h, bit for bit. With more, weights are
// dequantised, so that nothing is left to do with a block's sums: a sixth less work.

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/experts_finish.h"
#include "kernels/hopper/experts_units.h"
#include "kernels/hopper/matvec_tile.h"

namespace rocmforge::hopper {

/// A block's operand B for a lane, at its activations' address.
__device__ inline void load_block(std::uint32_t (&b)[4], std::uint32_t x, int block) {
  load_shared(b, x + static_cast<std::uint32_t>(block * few_slots * 64));
}

/// Sums of dequantised weights.
template <WeightFormat format>
struct FewDequantised {
  using U = Unit<format>;
  using Weights = LaneWeights<format>;
  static constexpr int sets = 1;  ///< of sums

  template <int s>
  __device__ static void multiply_block(const Weights& weights, std::uint32_t x, float (&sums)[4]) {
    std::uint32_t a[2][4];
    weights.template dequantize<s>(a);
    std::uint32_t b[4];
    load_block(b, x, s);
    multiply<half>(sums, a[0], b[0], b[1]);
    multiply<half>(sums, a[1], b[2], b[3]);
  }

  __device__ static void add_unit(std::uint32_t unit, int groups, int lane, std::uint32_t x, std::uint32_t /*from*/,
                                  const float (&scale)[2], float (&total)[sets][4]) {
    float sums[4] = {};
#pragma unroll
    for (int group = 0; group < U::groups; ++group) {
      if (group >= groups) {
        break;
      }
      Weights weights;
      weights.load(U::record_of(unit, group), U::records == 2 ? 0 : group, lane);
      multiply_block<0>(weights, x, sums);
      multiply_block<1>(weights, x, sums);
      multiply_block<2>(weights, x, sums);
      multiply_block<3>(weights, x, sums);
      x += 4 * few_slots * 64;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total[0][i] = fmaf(sums[i], scale[i % 2], total[0][i]);
    }
  }
  __device__ static float sum_of(const float (&total)[sets][4], int i) { return total[0][i]; }
};

/// Sums of codes, in the order of experts_units.h.
template <WeightFormat format>
struct FewUnits {
  using U = Unit<format>;
  using Weights = LaneWeights<format>;
  static constexpr int sets = 4;  ///< of sums: of the pairs of a unit's blocks

  /// A block's products with rows lane / 4 and 8 further on for two slots, and the sums of their activations; what they
  /// begin with is at `from`.
  __device__ static void multiply_block(const std::uint32_t (&a)[2][4], const std::uint32_t (&b)[4], std::uint32_t from,
                                        float (&product)[4], float (&all)[2]) {
    std::uint32_t found[4] = {};
    if constexpr (!U::is_float) {
      load_shared(found, from);
    }
    product[0] = product[2] = __uint_as_float(found[0]);
    product[1] = product[3] = __uint_as_float(found[2]);
    all[0] = __uint_as_float(found[1]);
    all[1] = __uint_as_float(found[3]);
    multiply<half>(product, a[0], b[0], b[1]);
    multiply<half>(product, a[1], b[2], b[3]);
  }

  /// Adds a block's products to the sums of both rows, given its scales and minima.
  __device__ static void add_products(const float (&product)[4], const float (&all)[2], const float (&scale)[2],
                                      const float (&minimum)[2], float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = U::add_block(sums[i], product[i], all[i % 2], scale[i / 2], minimum[i / 2]);
    }
  }

  /// Adds blocks s and s + 1 of a group, of Q6_K the halves of block s. Activations of the group are at `x`, blocks' sums at
  /// `from`.
  template <int s>
  __device__ static void add_pair(const Weights& weights, std::uint32_t unit, int group, int lane, std::uint32_t x,
                                  std::uint32_t from, float (&sums)[4]) {
    constexpr std::uint32_t half_bytes = few_slots * 8;
    float scale[2][2];
    float minimum[2][2];
    U::load_scales(unit, group, lane / 4, U::half_blocks ? s : group * 2 + s / 2, scale[0], minimum[0]);
    U::load_scales(unit, group, lane / 4 + 8, U::half_blocks ? s : group * 2 + s / 2, scale[1], minimum[1]);
    std::uint32_t a[2][4];
    std::uint32_t b[4];
    float product[4];
    float all[2];
    U::template operand_a<s>(weights, a);
    load_block(b, x, s);
    from += 2 * s * half_bytes;
    if constexpr (U::half_blocks) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool own = lane % 4 / 2 == j;
        const std::uint32_t part[4] = {own ? b[0] : 0, own ? b[1] : 0, own ? b[2] : 0, own ? b[3] : 0};
        multiply_block(a, part, from + static_cast<std::uint32_t>(j) * half_bytes, product, all);
        add_products(product, all, {scale[0][j], scale[1][j]}, {minimum[0][j], minimum[1][j]}, sums);
      }
    } else {
      multiply_block(a, b, from, product, all);
      add_products(product, all, {scale[0][0], scale[1][0]}, {minimum[0][0], minimum[1][0]}, sums);
      U::template operand_a<s + 1>(weights, a);
      load_block(b, x, s + 1);
      multiply_block(a, b, from + 2 * half_bytes, product, all);
      add_products(product, all, {scale[0][1], scale[1][1]}, {minimum[0][1], minimum[1][1]}, sums);
    }
  }

  /// Adds a unit's sums to those of the units before, times the scales of both slots' activations.
  __device__ static void fold(const float (&sums)[4], const float (&scale)[2], float (&total)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total[i] = fmaf(sums[i], scale[i % 2], total[i]);
    }
  }

  /// add_pair(), and fold() what it found.
  template <int s>
  __device__ static void add_folded(const Weights& weights, std::uint32_t unit, int group, int lane, std::uint32_t x,
                                    std::uint32_t from, const float (&scale)[2], float (&total)[4]) {
    float sums[4] = {};
    add_pair<s>(weights, unit, group, lane, x, from, sums);
    fold(sums, scale, total);
  }

  __device__ static void add_unit(std::uint32_t unit, int groups, int lane, std::uint32_t x, std::uint32_t from,
                                  const float (&scale)[2], float (&total)[sets][4]) {
    constexpr std::uint32_t group_columns = 4 * few_slots * 64;
    constexpr std::uint32_t group_sums = 8 * few_slots * 8;
    if constexpr (U::half_blocks) {
#pragma unroll 1
      for (int group = 0; group < U::groups; ++group) {
        Weights weights;
        U::load_codes(unit, group, lane, weights);
        add_folded<0>(weights, unit, group, lane, x, from, scale, total[0]);
        add_folded<1>(weights, unit, group, lane, x, from, scale, total[1]);
        add_folded<2>(weights, unit, group, lane, x, from, scale, total[2]);
        add_folded<3>(weights, unit, group, lane, x, from, scale, total[3]);
        x += group_columns;
        from += group_sums;
      }
    } else {
#pragma unroll 1
      for (int group = 0; group < U::groups; ++group) {
        if (group < groups) {
          Weights weights;
          U::load_codes(unit, group, lane, weights);
          add_folded<0>(weights, unit, group, lane, x, from, scale, total[0]);
          add_folded<2>(weights, unit, group, lane, x, from, scale, total[1]);
        }
        x += group_columns;
        from += group_sums;
#pragma unroll
        for (int i = 0; i < 8; ++i) {  // the other group's: registers cannot be chosen by an index
          const float other = total[2 + i / 4][i % 4];
          total[2 + i / 4][i % 4] = total[i / 4][i % 4];
          total[i / 4][i % 4] = other;
        }
      }
    }
  }
  __device__ static float sum_of(const float (&total)[sets][4], int i) {
    return (total[0][i] + total[1][i]) + (total[2][i] + total[3][i]);
  }
};

template <WeightFormat format, bool equal>
struct FewWarp {
  using U = Unit<format>;
  using Sums = std::conditional_t<equal, FewUnits<format>, FewDequantised<format>>;
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr int unit_bytes = U::records * layout.record_bytes;

  const ExpertFewArgs& args;
  const std::uint8_t* weight;  ///< of its 16 rows, null for none
  std::uint32_t ring;          ///< addresses in shared memory
  std::uint32_t barriers;
  int lane;

  __device__ void fetch(int unit, int at) const {
    if (lane == 0) {
      const int records = min(args.records - unit * U::records, U::records);
      const std::uint32_t barrier = barriers + static_cast<std::uint32_t>(at * 8);
      copy_bytes(ring + static_cast<std::uint32_t>(at * unit_bytes), weight + std::int64_t{unit} * unit_bytes,
                 static_cast<std::uint32_t>(records * layout.record_bytes), barrier);
      arrive_at(barrier);
    }
  }

  __device__ void start() const {
    for (int unit = 0; weight != nullptr && unit < args.ring; ++unit) {
      fetch(unit, unit);
    }
  }

  /// All units times the tile's activations at `x`: rows lane / 4 and 8 further on, slots 2 (lane % 4) and the next.
  __device__ void run(std::uint32_t x, float (&whole)[4]) const {
    int place = 0;
    std::uint32_t parity = 0;
    std::uint32_t columns = x + static_cast<std::uint32_t>(lane * 16);
    std::uint32_t scales = x + static_cast<std::uint32_t>(args.padded_columns * few_slots * 2 + lane % 4 * 8);
    std::uint32_t blocks = x + static_cast<std::uint32_t>(few_sums_offset(args.padded_columns) + lane % 4 * 16);
    float total[Sums::sets][4] = {};
    int part = 0;
    int end = args.units / args.parts;
#pragma unroll 1
    for (int unit = 0; unit < args.units; ++unit) {
      std::uint32_t found[2];
      load_shared(found, scales);
      constexpr float factor = equal ? U::factor : 1.0f;
      const float scale[2] = {__uint_as_float(found[0]) * factor, __uint_as_float(found[1]) * factor};
      wait_for(barriers + static_cast<std::uint32_t>(place * 8), parity);
      Sums::add_unit(ring + static_cast<std::uint32_t>(place * unit_bytes),
                     U::records == 2 ? min(args.records - unit * 2, 2) : U::groups, lane, columns, blocks, scale, total);
      columns += expert_unit_columns / 32 * few_slots * 64;
      blocks += expert_unit_columns / 16 * few_slots * 8;
      scales += few_slots * 4;
      __syncwarp();
      if (unit + args.ring < args.units) {
        fetch(unit + args.ring, place);
      }
      if (++place == args.ring) {
        place = 0;
        parity ^= 1;
      }
      if (unit + 1 == end) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float sum = Sums::sum_of(total, i);
          whole[i] = part == 0 ? sum : whole[i] + sum;
#pragma unroll
          for (int set = 0; set < Sums::sets; ++set) {
            total[set][i] = 0.0f;
          }
        }
        ++part;
        end = args.units * (part + 1) / args.parts;
      }
    }
  }
};

template <WeightFormat format, bool gated, bool equal>
__device__ inline void expert_few(const ExpertFewArgs& args) {
  using Warp = FewWarp<format, equal>;
  constexpr int matrices = gated ? 2 : 1;
  constexpr int row_tiles = few_warps / matrices;  ///< of each matrix
  constexpr int rows = row_tiles * weight_tile_rows;
  extern __shared__ __align__(128) char memory[];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const ExpertFewShared shared = expert_few_shared(args.padded_columns, args.ring, Warp::unit_bytes);
  auto* sums = reinterpret_cast<float*>(memory + shared.sums);
  auto* x_barrier = reinterpret_cast<std::uint64_t*>(memory + shared.barriers);
  const std::uint32_t barriers = shared_address(x_barrier + 1 + warp * args.ring);
  if (lane == 0) {
    for (int i = 0; i < args.ring; ++i) {
      init_barrier(barriers + static_cast<std::uint32_t>(i * 8), 1);
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
                               std::int64_t{own_row / weight_tile_rows} * args.records * Warp::layout.record_bytes;
  const Warp own{args, own_row < args.n ? weight : nullptr,
                 shared_address(memory + shared.ring + warp * args.ring * Warp::unit_bytes), barriers, lane};
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
