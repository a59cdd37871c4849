// Few slots of each expert: expert_few_halves or expert_few_codes, then expert_few_gate_up_FORMAT, expert_few_down_FORMAT;
// with codes expert_few_equal_gate_up_FORMAT, expert_few_equal_down_FORMAT. See experts_few.h.

#include "kernels/gpu/device_code.h"
#include "kernels/hopper/experts_few.h"

using rocmforge::hopper::ExpertFewArgs;
using rocmforge::hopper::ExpertFewConvertArgs;

namespace rocmforge::hopper {
namespace {

/// Powers of two for activations of a unit whose largest has these bits: the largest becomes 2^13 and more.
struct UnitScale {
  float to_half;
  float back;

  __device__ explicit UnitScale(std::uint32_t most_bits) {
    const std::uint32_t exponent = min(max(most_bits >> 23, 14u), 254u);
    to_half = __uint_as_float((267u - exponent) << 23);
    back = __uint_as_float((exponent - 13u) << 23);
  }
};

__device__ inline std::uint32_t largest_bits(const float (&values)[8]) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    most = fmaxf(most, fabsf(values[i]));
  }
  return __float_as_uint(most);  // floats from 0 on are in the order of their bits
}

/// A row of a tile.
struct FewRow {
  const float* x;  ///< null for nobody's, which is not read
  std::uint8_t* tile;
  int column;

  __device__ explicit FewRow(const ExpertFewConvertArgs& args) {
    const int index = static_cast<int>(blockIdx.x) / few_slots;
    column = static_cast<int>(blockIdx.x) % few_slots;
    tile = args.to + std::int64_t{index} * args.tile_bytes;
    x = nullptr;
    if (index < *args.work_count && column < args.work[index].count) {
      x = args.x + args.order[args.work[index].first + column] / args.slots_of_row * args.stride;
    }
  }
};

/// Eight columns at a time to put(values, first column); a warp has a unit.
template <class Put>
__device__ inline void for_each_eight(const ExpertFewConvertArgs& args, const FewRow& row, const Put& put) {
  for (int at = static_cast<int>(threadIdx.x) * 8; at < args.padded_columns; at += few_convert_threads * 8) {
    float values[8];
    load_eight(row.x, at, args.k, args.aligned != 0, values);
    put(values, at);
  }
}

}  // namespace
}  // namespace rocmforge::hopper

/// A slot's row as binary16, of each unit times a power of two.
extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_convert_threads)
    expert_few_halves(const __grid_constant__ ExpertFewConvertArgs args) {
  using namespace rocmforge;
  using namespace rocmforge::hopper;
  gpu::begin_in_turn();
  const FewRow row(args);
  if (row.x == nullptr) {
    return;
  }
  auto* scales = reinterpret_cast<float*>(row.tile + args.padded_columns * few_slots * 2);
  for_each_eight(args, row, [&](const float(&values)[8], int at) {
    const UnitScale scale(gpu::wave_max(largest_bits(values)));
    if (at % expert_unit_columns == 0) {
      scales[at / expert_unit_columns * few_slots + row.column] = scale.back;
    }
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int element = i / 2 * 4 + i % 2;
      words[i] = pack<half>(values[element] * scale.to_half, values[element + 2] * scale.to_half);
    }
    const int place = (at / 32 * few_slots + row.column) * 4 + at / 8 % 4;
    reinterpret_cast<uint4*>(row.tile)[place] = make_uint4(words[0], words[1], words[2], words[3]);
  });
}

/// A slot's row as codes.
extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_convert_threads)
    expert_few_codes(const __grid_constant__ ExpertFewConvertArgs args) {
  using namespace rocmforge;
  using namespace rocmforge::hopper;
  gpu::begin_in_turn();
  const FewRow row(args);
  if (row.x == nullptr) {
    return;
  }
  const MatvecShared layout = matvec_shared(few_slots, args.padded_columns, 0, 0);
  for_each_eight(args, row,
                 [&](const float(&values)[8], int at) { quantise_chunk(values, at / 8, row.column, layout, row.tile); });
}

#define ROCMFORGE_EXPERT_FEW_KERNEL(name, format, gated, equal)                                 \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_warps * 32, 2)            \
      name##_##format(const __grid_constant__ ExpertFewArgs args) {                             \
    rocmforge::hopper::expert_few<rocmforge::hopper::WeightFormat::format, gated, equal>(args); \
  }
#define ROCMFORGE_EXPERT_FEW(format)                                        \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_gate_up, format, true, false)      \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_down, format, false, false)        \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_equal_gate_up, format, true, true) \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_equal_down, format, false, true)

ROCMFORGE_EXPERT_FEW(q4_0)
ROCMFORGE_EXPERT_FEW(q5_0)
ROCMFORGE_EXPERT_FEW(q8_0)
ROCMFORGE_EXPERT_FEW(mxfp4)
ROCMFORGE_EXPERT_FEW(q4_k)
ROCMFORGE_EXPERT_FEW(q5_k)
ROCMFORGE_EXPERT_FEW(q6_k)
