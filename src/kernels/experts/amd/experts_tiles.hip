// Products of packed experts with many tokens, whose slots are sorted by expert: expert_tiles_packed_FORMAT. See
// matmul_packed.h.

#include "kernels/experts/portable/experts.h"
#include "kernels/matmul/amd/matmul_packed.h"

namespace rocmforge::amd {
namespace {

template <WeightFormat format>
__device__ inline void packed_expert_tiles(const gpu::ExpertTileArgs& args) {
  using Body = PackedTile<format, gpu::expert_tile, 2>;
  __shared__ typename Body::Shared shared;
  if (static_cast<int>(blockIdx.x) >= *args.tile_count) {
    return;
  }
  const gpu::ExpertTile tile = args.tiles[blockIdx.x];
  gpu::MatmulTileArgs own;
  gpu::MatmulPart part;
  gpu::expert_product(args, tile, own, part);
  Body body{own, part, tile.first, static_cast<int>(blockIdx.y) * gpu::expert_tile.rows, nullptr, nullptr, {}, {}};
  body.run(shared, [&](int place, int row, float sum) { gpu::store_slot(args, tile, place, row, sum); });
}

}  // namespace
}  // namespace rocmforge::amd

using namespace rocmforge;
using rocmforge::gpu::ExpertTileArgs;

#define ROCMFORGE_EXPERT_TILES(format)                                                                             \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::expert_tile.threads) expert_tiles_packed_##format(ExpertTileArgs args) { \
    amd::packed_expert_tiles<amd::WeightFormat::format>(args);                                                     \
  }

ROCMFORGE_AMD_FORMATS(ROCMFORGE_EXPERT_TILES)
