#include "kernels/matmul/portable/matmul_launch.h"

namespace rocmforge {

void run_matmul_tiles(const MatmulTileKernels& kernels, DType dtype, std::int64_t weight_stride, const Matmul::Args& call,
                      const ConvertedRows& converted, Stream& stream, const LargeMatmulTile& large_tile) {
  const auto token_tiles = [&](const gpu::MatmulTileShape& tile) {
    return divide_up(call.tokens, std::int64_t{tile.tokens});
  };
  std::int64_t large_tiles = 0;
  for (const MatmulOutput& output : call.outputs) {
    large_tiles += output.dtype == dtype ? divide_up(output.n, std::int64_t{large_tile.shape.rows}) : 0;
  }
  const bool large = call.tokens > gpu::small_matmul_tile.tokens &&
                     token_tiles(large_tile.shape) * large_tiles * large_tile.units >= stream.device().info().compute_units;
  const gpu::MatmulTileShape& tile = large ? large_tile.shape : gpu::small_matmul_tile;
  gpu::MatmulTileArgs args{};
  const std::int64_t tiles = set_parts(call, dtype, weight_stride, tile.rows, args);
  args.dtype = dtype;
  args.x = converted.rows;
  args.x_scales = converted.scales;
  args.k = static_cast<std::int32_t>(call.k);
  args.padded_k = static_cast<std::int32_t>(converted_stride(call.k));
  args.tokens = static_cast<std::int32_t>(call.tokens);
  LaunchShape shape;
  shape.grid = {static_cast<std::uint32_t>(token_tiles(tile)), static_cast<std::uint32_t>(tiles), 1};
  shape.block[0] = static_cast<std::uint32_t>(tile.threads);
  (large ? kernels.large : kernels.small).launch(stream, shape, args);
}

}  // namespace rocmforge
