#pragma once

// Products of few slots of each expert, sorted by expert: a weight is read once for up to 8 slots. A warp has 16 rows and
// all of k: units come by bulk copies into a ring of its own.
//
// Up to eight tokens activations are codes, and a row's sums are those of experts_vectors.h, bit for bit. With more, weights
// are dequantised for mma.m16n8k16, whose columns are the slots: nothing is left to do with a block's sums.

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/experts_activations.h"
#include "kernels/hopper/experts_finish.h"
#include "kernels/hopper/matmul_dequantize.h"

namespace rocmforge::hopper {

/// Four sums of a lane, of dequantised weights.
template <WeightFormat format>
class FewHalves {
 public:
  __device__ FewHalves(const ExpertFewArgs& args, const std::uint8_t* x, int lane)
      : x_(shared_address(x) + static_cast<std::uint32_t>(lane * 16)),
        scales_(reinterpret_cast<const float*>(x + args.padded_columns * few_slots * 2) + lane % 4 * 2),
        lane_(lane) {}

  __device__ static int slot_of(int sum, int lane) { return lane % 4 * 2 + sum % 2; }
  __device__ static int row_of(int sum, int lane) { return lane / 4 + sum / 2 * 8; }

  __device__ void add_unit(const std::uint8_t* unit, int index, int groups) {
    const std::uint32_t record = shared_address(unit);
    std::uint32_t x = x_ + static_cast<std::uint32_t>(index * (expert_unit_columns / 32) * few_slots * 64);
    float sums[4] = {};
#pragma unroll
    for (int group = 0; group < 2; ++group) {
      if (group >= groups) {
        break;
      }
      Weights weights;
      if constexpr (Unit<format>::records == 2) {
        weights.load(record + group * Unit<format>::layout.record_bytes, 0, lane_);
      } else {
        weights.load(record, group, lane_);
      }
      multiply_block<0>(weights, x, sums);
      multiply_block<1>(weights, x, sums);
      multiply_block<2>(weights, x, sums);
      multiply_block<3>(weights, x, sums);
      x += 4 * few_slots * 64;
    }
    const auto scale = *reinterpret_cast<const float2*>(scales_ + index * few_slots);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      total_[i] = fmaf(sums[i], i % 2 == 0 ? scale.x : scale.y, total_[i]);
    }
  }

  /// What was added since the last call.
  __device__ void take(float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = total_[i];
      total_[i] = 0.0f;
    }
  }

 private:
  using Weights = LaneWeights<format>;

  template <int s>
  __device__ static void multiply_block(const Weights& weights, std::uint32_t x, float (&sums)[4]) {
    std::uint32_t a[2][4];
    weights.template dequantize<s>(a);
    std::uint32_t b[4];
    load_shared(b, x + static_cast<std::uint32_t>(s * few_slots * 64));
    multiply<half>(sums, a[0], b[0], b[1]);
    multiply<half>(sums, a[1], b[2], b[3]);
  }

  std::uint32_t x_;
  const float* scales_;
  int lane_;
  float total_[4] = {};
};

/// The same of codes.
template <WeightFormat format>
class FewCodes {
 public:
  __device__ FewCodes(const ExpertFewArgs& args, const std::uint8_t* x, int lane)
      : x_(activations_of(x, matvec_shared(few_slots, args.padded_columns, 0, 0), 0)), lane_(lane) {}

  __device__ static int slot_of(int sum, int lane) { return sum / 2 * 4 + lane % 4; }
  __device__ static int row_of(int sum, int lane) { return lane / 4 + sum % 2 * 8; }

  __device__ void add_unit(const std::uint8_t* unit, int index, int groups) {
    RawStep<format, few_slots> raw;
    raw.load(unit, groups, lane_);
    add_step(raw, x_, index, lane_, sums_);
  }

  __device__ void take(float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = row_sum<few_slots>(sums_, i / 2, i % 2) * operand_scale(format);
    }
#pragma unroll
    for (float& sum : sums_) {
      sum = 0.0f;
    }
  }

 private:
  Activations x_;
  int lane_;
  float sums_[2 * few_slots] = {};
};

/// The order of a row's units: n, n + 8 .. for n = 0 to 7, each of which is a partial sum as in matvec_roles.h.
struct UnitOrder {
  int units;
  int unit = 0;

  __device__ void advance() {
    const int next = unit + matvec_warps;
    unit = next < units ? next : unit % matvec_warps + 1;
  }
  /// Whether the unit is the last one of its partial sum.
  __device__ bool ends_sum() const { return unit + matvec_warps >= units; }
};

template <WeightFormat format, class Sums>
struct FewWarp {
  const ExpertFewArgs& args;
  const std::uint8_t* weight;  ///< of its 16 rows, null for none
  const std::uint8_t* ring;
  std::uint32_t barriers;  ///< an address in shared memory
  int lane;
  UnitOrder fetched;

  __device__ void fetch(int at) {
    if (lane == 0) {
      const std::uint32_t barrier = barriers + static_cast<std::uint32_t>(at * 8);
      copy_bytes(shared_address(ring + at * Unit<format>::bytes), weight + std::int64_t{fetched.unit} * Unit<format>::bytes,
                 Unit<format>::bytes_of(fetched.unit, args.records), barrier);
      arrive_at(barrier);
    }
    fetched.advance();
  }

  __device__ void start() {
    for (int at = 0; weight != nullptr && at < args.ring; ++at) {
      fetch(at);
    }
  }

  /// All units times the tile's activations at `x`; partial sums are added up in their order.
  __device__ void run(const std::uint8_t* x, float (&whole)[4]) {
    int place = 0;
    std::uint32_t parity = 0;
    Sums sums(args, x, lane);
    UnitOrder order{args.units};
#pragma unroll 1
    for (int i = 0; i < args.units; ++i) {
      wait_for(barriers + static_cast<std::uint32_t>(place * 8), parity);
      sums.add_unit(ring + place * Unit<format>::bytes, order.unit, Unit<format>::groups(order.unit, args.records));
      __syncwarp();
      if (i + args.ring < args.units) {
        fetch(place);
      }
      if (++place == args.ring) {
        place = 0;
        parity ^= 1;
      }
      if (order.ends_sum()) {
        float partial[4];
        sums.take(partial);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          whole[j] = order.unit % matvec_warps == 0 ? partial[j] : whole[j] + partial[j];
        }
      }
      order.advance();
    }
  }
};

template <WeightFormat format, bool gated, bool equal>
__device__ inline void expert_few(const ExpertFewArgs& args) {
  using Sums = std::conditional_t<equal, FewCodes<format>, FewHalves<format>>;
  constexpr int matrices = gated ? 2 : 1;
  constexpr int row_tiles = few_warps / matrices;  ///< of each matrix
  constexpr int rows = row_tiles * weight_tile_rows;
  extern __shared__ __align__(128) std::uint8_t memory[];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const ExpertFewShared shared = expert_few_shared(args.tile_bytes, args.ring, Unit<format>::bytes);
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
                               std::int64_t{own_row / weight_tile_rows} * args.records * weight_layout(format).record_bytes;
  FewWarp<format, Sums> own{args,
                            own_row < args.n ? weight : nullptr,
                            memory + shared.ring + warp * args.ring * Unit<format>::bytes,
                            barriers,
                            lane,
                            {args.units}};
  own.start();
  gpu::wait_for_predecessor();
  if (thread == 0) {
    const auto bytes = static_cast<std::uint32_t>(args.tile_bytes);
    barrier_expect(x_barrier, bytes);
    copy_bytes(memory, args.x + std::int64_t{tile} * args.tile_bytes, bytes, x_barrier);
  }
  barrier_wait(x_barrier, 0);
  if (own.weight != nullptr) {
    float found_sums[4] = {};
    own.run(memory, found_sums);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[(warp * few_slots + Sums::slot_of(i, lane)) * weight_tile_rows + Sums::row_of(i, lane)] = found_sums[i];
    }
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
