// Few slots of each expert: expert_few_convert, expert_few_gate_up_FORMAT, expert_few_down_FORMAT, and with the sums of
// experts_vectors.h expert_few_equal_gate_up_FORMAT, expert_few_equal_down_FORMAT. See experts_few.h.

#include "kernels/gpu/device_code.h"
#include "kernels/hopper/experts_few.h"
#include "kernels/hopper/experts_units.h"

using rocmforge::hopper::ExpertFewArgs;
using rocmforge::hopper::ExpertFewConvertArgs;

namespace rocmforge::hopper {
namespace {

/// The blocks' sums of a unit, of which each lane of a warp has eight activations, to [blocks of 16 columns][8 slots].
__device__ void store_sums(const ExpertFewConvertArgs& args, const std::uint32_t (&words)[4], int unit, float2* sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float2* own = sums + unit * (expert_unit_columns / 16) * few_slots;
  if (args.half_blocks == 0) {
    const BlockSums blocks(args.offsets, words);
    if (lane < 4) {  // all rows of the sums are alike
      own[4 * lane * few_slots] = float2{blocks.start[0], blocks.all[0]};
      own[(4 * lane + 2) * few_slots] = float2{blocks.start[1], blocks.all[1]};
    }
    return;
  }
  for (int group = 0; group < expert_unit_columns / weight_group_elems; ++group) {
    std::uint32_t columns[4];
    half_columns(words, group, lane, columns);
    const BlockSums blocks(args.offsets, columns);
    if (lane < 4) {
      own[(8 * group + 2 * lane) * few_slots] = float2{blocks.start[0], blocks.all[0]};
      own[(8 * group + 2 * lane + 1) * few_slots] = float2{blocks.start[1], blocks.all[1]};
    }
  }
}

}  // namespace
}  // namespace rocmforge::hopper

/// A slot's row as binary16, of each unit times a power of two.
extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_convert_threads)
    expert_few_convert(const __grid_constant__ ExpertFewConvertArgs args) {
  using namespace rocmforge;
  using namespace rocmforge::hopper;
  gpu::begin_in_turn();
  const int tile = static_cast<int>(blockIdx.x) / few_slots;
  const int column = static_cast<int>(blockIdx.x) % few_slots;
  if (tile >= *args.work_count || column >= args.work[tile].count) {
    return;  // columns of nobody's are not read
  }
  const int slot = args.order[args.work[tile].first + column];
  const float* row = args.x + slot / args.slots_of_row * args.stride;
  std::uint8_t* to = args.to + tile * few_tile_bytes(args.padded_columns);
  auto* scales = reinterpret_cast<float*>(to + args.padded_columns * few_slots * 2);
  auto* sums = reinterpret_cast<float2*>(to + few_sums_offset(args.padded_columns));
  // A warp has a unit at a time.
  for (int at = static_cast<int>(threadIdx.x) * 8; at < args.padded_columns; at += few_convert_threads * 8) {
    float values[8];
    load_eight(row, at, args.k, args.aligned != 0, values);
    const UnitScale scale(gpu::wave_max(largest_bits(values)));
    if (at % expert_unit_columns == 0) {
      scales[at / expert_unit_columns * few_slots + column] = scale.back;
    }
    std::uint32_t words[4];
    pack_eight(values, scale.to_half, args.offsets.second_share, words);
    if (args.sums != 0) {
      store_sums(args, words, at / expert_unit_columns, sums + column);
    }
    const int place = (at / 32 * few_slots + column) * 4 + at / 8 % 4;
    reinterpret_cast<uint4*>(to)[place] = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

#define ROCMFORGE_EXPERT_FEW_KERNEL(name, format, gated, equal)                               \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_warps * 32, 2)          \
      name##_##format(const __grid_constant__ ExpertFewArgs args) {                           \
    rocmforge::hopper::expert_few<rocmforge::hopper::WeightFormat::format, gated, equal>(args); \
  }
#define ROCMFORGE_EXPERT_FEW(format)                                          \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_gate_up, format, true, false)         \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_down, format, false, false)           \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_equal_gate_up, format, true, true)    \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_equal_down, format, false, true)

ROCMFORGE_EXPERT_FEW(q4_0)
ROCMFORGE_EXPERT_FEW(q5_0)
ROCMFORGE_EXPERT_FEW(q8_0)
ROCMFORGE_EXPERT_FEW(mxfp4)
ROCMFORGE_EXPERT_FEW(q4_k)
ROCMFORGE_EXPERT_FEW(q5_k)
ROCMFORGE_EXPERT_FEW(q6_k)
