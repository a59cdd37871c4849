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

/// A slot's row as binary16, times a power of two where it would not fit.
extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_convert_threads)
    expert_few_convert(const __grid_constant__ ExpertFewConvertArgs args) {
  using namespace rocmforge;
  using namespace rocmforge::hopper;
  __shared__ float scratch[few_convert_threads / 32];
  gpu::begin_in_turn();
  const int tile = static_cast<int>(blockIdx.x) / few_slots;
  const int column = static_cast<int>(blockIdx.x) % few_slots;
  if (tile >= *args.work_count || column >= args.work[tile].count) {
    return;  // columns of nobody's are not read
  }
  const int slot = args.order[args.work[tile].first + column];
  const float* row = args.x + slot / args.slots_of_row * args.stride;
  constexpr int step = few_convert_threads * 8;
  const int first = static_cast<int>(threadIdx.x) * 8;
  const int padded = args.x_bytes / few_slots / 2;
  float kept[8];
  load_eight(args, row, first, kept);
  float most = largest(kept);
  for (int at = first + step; at < padded; at += step) {
    float values[8];
    load_eight(args, row, at, values);
    most = fmaxf(most, largest(values));
  }
  most = gpu::block_reduce<gpu::Max>(most, scratch, 0.0f);
  constexpr float most_half = 32768.0f;
  const bool large = most > most_half && most < gpu::infinity;
  const float scale = large ? __uint_as_float((__float_as_uint(most) & 0x7f800000u) - (14u << 23)) : 1.0f;
  const float factor = 1.0f / scale;
  if (threadIdx.x == 0) {
    args.scales[blockIdx.x] = scale;
  }
  std::uint8_t* to = args.to + std::int64_t{tile} * args.x_bytes;
  for (int at = first; at < padded; at += step) {
    if (at != first) {
      load_eight(args, row, at, kept);
    }
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int element = i / 2 * 4 + i % 2;  // as activation_element has them
      words[i] = pack<half>(kept[element] * factor, kept[element + 2] * factor);
    }
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
