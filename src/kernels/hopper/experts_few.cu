// Few slots of each expert: expert_few_convert, expert_few_gate_up_FORMAT, expert_few_down_FORMAT. See experts_few.h.

#include "kernels/gpu/device_code.h"
#include "kernels/hopper/experts_few.h"
#include "kernels/hopper/experts_units.h"

using rocmforge::hopper::ExpertFewArgs;
using rocmforge::hopper::ExpertFewConvertArgs;

/// A slot's row as binary16, of each record times a power of two.
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
  // A warp has 256 columns at a time: a record, or two.
  for (int at = static_cast<int>(threadIdx.x) * 8; at < args.padded_columns; at += few_convert_threads * 8) {
    float values[8];
    load_eight(row, at, args.k, args.aligned != 0, values);
    const std::uint32_t most = largest_bits(values);
    const UnitScale scale(args.record_columns == 256 ? gpu::wave_max(most) : gpu::wave_reduce<gpu::Max, 16>(most));
    if (at % args.record_columns == 0) {
      scales[at / args.record_columns * few_slots + column] = scale.back;
    }
    std::uint32_t words[4];
    pack_eight(values, scale.to_half, 1.0f, words);
    const int place = (at / 32 * few_slots + column) * 4 + at / 8 % 4;
    reinterpret_cast<uint4*>(to)[place] = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

#define ROCMFORGE_EXPERT_FEW(format)                                                                                     \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_warps * 32, 2)                                      \
      expert_few_gate_up_##format(const __grid_constant__ ExpertFewArgs args) {                                          \
    rocmforge::hopper::expert_few<rocmforge::hopper::WeightFormat::format, true>(args);                                   \
  }                                                                                                                      \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_warps * 32, 2)                                      \
      expert_few_down_##format(const __grid_constant__ ExpertFewArgs args) {                                             \
    rocmforge::hopper::expert_few<rocmforge::hopper::WeightFormat::format, false>(args);                                  \
  }

ROCMFORGE_EXPERT_FEW(q4_0)
ROCMFORGE_EXPERT_FEW(q5_0)
ROCMFORGE_EXPERT_FEW(q8_0)
ROCMFORGE_EXPERT_FEW(mxfp4)
ROCMFORGE_EXPERT_FEW(q4_k)
ROCMFORGE_EXPERT_FEW(q5_k)
ROCMFORGE_EXPERT_FEW(q6_k)
