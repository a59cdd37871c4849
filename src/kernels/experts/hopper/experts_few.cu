// Few slots of each expert: expert_few_codes, then expert_few_gate_up_FORMAT and expert_few_down_FORMAT, with more than 8
// tokens expert_few_gate_up_in_parts_FORMAT and expert_few_down_in_parts_FORMAT. See experts_few.h.

#include "kernels/experts/hopper/experts_few.h"
#include "kernels/experts/hopper/experts_sort.h"
#include "kernels/tile/device_code.h"

using rocmforge::hopper::ExpertFewArgs;
using rocmforge::hopper::ExpertFewConvertArgs;

/// Converts rows to codes; the first work-group sorts the slots if `sorts` is set.
extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_convert_threads)
    expert_few_codes(const __grid_constant__ ExpertFewConvertArgs args) {
  using namespace rocmforge;
  using namespace rocmforge::hopper;
  __shared__ SortShared shared;
  gpu::begin_in_turn();
  const int row = static_cast<int>(blockIdx.x) - args.sorts;
  if (row < 0) {
    sort_few_slots(args.sort, args.for_mxfp4 != 0, shared);
    return;
  }
  const float* const x = args.x + row * args.stride;
  std::uint8_t* const codes = args.to + static_cast<std::int64_t>(row) * few_row_bytes(args.padded_columns);
  std::uint8_t* const info = codes + few_row_code_bytes(args.padded_columns);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int at = static_cast<int>(threadIdx.x); at < args.padded_columns / 8; at += few_convert_threads) {
    float values[8];
    load_eight(x, at * 8, args.k, args.aligned != 0, values);
    if (args.for_mxfp4 != 0) {
      quantise<true>(values, lane, codes + at / 4 * 64 + at % 4 * 8, info + at / 4 * 8);
    } else {
      quantise<false>(values, lane, codes + at / 4 * 64 + at % 4 * 8, info + at / 4 * 8);
    }
  }
}

#define ROCMFORGE_EXPERT_FEW_KERNEL(name, format, gated, parts)                                 \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_warps * 32, 2)            \
      name##_##format(const __grid_constant__ ExpertFewArgs args) {                             \
    rocmforge::hopper::expert_few<rocmforge::hopper::WeightFormat::format, gated, parts>(args); \
  }
#define ROCMFORGE_EXPERT_FEW(format)                                                                   \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_gate_up, format, true, 1)                                     \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_gate_up_in_parts, format, true, rocmforge::hopper::few_parts) \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_down, format, false, 1)                                       \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_down_in_parts, format, false, rocmforge::hopper::few_parts)

ROCMFORGE_HOPPER_FORMATS(ROCMFORGE_EXPERT_FEW)
