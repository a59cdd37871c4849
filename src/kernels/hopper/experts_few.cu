// Few slots of each expert: expert_few_codes, then expert_few_gate_up_FORMAT or expert_few_down_FORMAT. See experts_few.h.

#include "kernels/gpu/device_code.h"
#include "kernels/hopper/experts_few.h"

using rocmforge::hopper::ExpertFewArgs;
using rocmforge::hopper::ExpertFewConvertArgs;

namespace rocmforge::hopper {
namespace {

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

}  // namespace
}  // namespace rocmforge::hopper

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
  for (int at = static_cast<int>(threadIdx.x) * 8; at < args.padded_columns; at += few_convert_threads * 8) {
    float values[8];
    load_eight(row.x, at, args.k, args.aligned != 0, values);
    if (args.for_mxfp4 != 0) {
      quantise_chunk<true>(values, at / 8, row.column, layout, row.tile);
    } else {
      quantise_chunk<false>(values, at / 8, row.column, layout, row.tile);
    }
  }
}

#define ROCMFORGE_EXPERT_FEW_KERNEL(name, format, gated)                                 \
  extern "C" __global__ void __launch_bounds__(rocmforge::hopper::few_warps * 32, 2)     \
      name##_##format(const __grid_constant__ ExpertFewArgs args) {                      \
    rocmforge::hopper::expert_few<rocmforge::hopper::WeightFormat::format, gated>(args); \
  }
#define ROCMFORGE_EXPERT_FEW(format)                            \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_gate_up, format, true) \
  ROCMFORGE_EXPERT_FEW_KERNEL(expert_few_down, format, false)

ROCMFORGE_EXPERT_FEW(q4_0)
ROCMFORGE_EXPERT_FEW(q5_0)
ROCMFORGE_EXPERT_FEW(q8_0)
ROCMFORGE_EXPERT_FEW(mxfp4)
ROCMFORGE_EXPERT_FEW(q4_k)
ROCMFORGE_EXPERT_FEW(q5_k)
ROCMFORGE_EXPERT_FEW(q6_k)
