// Few slots of each expert: expert_few_convert, expert_few_gate_up_FORMAT, expert_few_down_FORMAT. See experts_few.h.

#include "kernels/gpu/device_code.h"
#include "kernels/hopper/experts_few.h"

using rocmforge::hopper::ExpertFewArgs;
using rocmforge::hopper::ExpertFewConvertArgs;

namespace rocmforge::hopper {
namespace {

/// Columns [at, at + 8) of a row, zeros from k on.
__device__ void load_eight(const ExpertFewConvertArgs& args, const float* row, int at, float (&values)[8]) {
  if (args.aligned != 0 && at + 8 <= args.k) {
    const float4 low = *reinterpret_cast<const float4*>(row + at);
    const float4 high = *reinterpret_cast<const float4*>(row + at + 4);
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = at + i < args.k ? row[at + i] : 0.0f;
  }
}

__device__ float largest(const float (&values)[8]) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    most = fmaxf(most, fabsf(values[i]));
  }
  return most;
}

}  // namespace
}  // namespace rocmforge::hopper

/// A slot's row as binary16, of each record times a power of two where it would not fit.
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
    load_eight(args, row, at, values);
    const float most =
        args.record_columns == 256 ? gpu::wave_reduce<gpu::Max>(largest(values)) : gpu::wave_reduce<gpu::Max, 16>(largest(values));
    const float scale = half_scale(most);
    if (at % args.record_columns == 0) {
      scales[at / args.record_columns * few_slots + column] = scale;
    }
    std::uint32_t words[4];
    pack_eight(values, 1.0f / scale, words);
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
