#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/matmul/portable/matmul_args.h"
#include "kernels/matmul/portable/matmul_convert.h"
#include "ops/matmul.h"

namespace rocmforge {

/// Sets the parts of a launch to the outputs of one format and returns their number of tiles. `weight_stride`: bytes from a
/// row to the next, or, where weights are repacked, from a tile to the next.
template <class Args>
std::int64_t set_parts(const Matmul::Args& call, DType dtype, std::int64_t weight_stride, std::int64_t tile_rows,
                       Args& args) {
  std::int64_t tiles = 0;
  for (const MatmulOutput& output : call.outputs) {
    if (output.dtype != dtype) {
      continue;
    }
    check(args.num_parts < gpu::most_matmul_parts, "matmul: more than four outputs in a group");
    args.parts[args.num_parts++] = {static_cast<const std::uint8_t*>(output.weight),
                                    output.bias,
                                    output.out,
                                    output.stride,
                                    weight_stride,
                                    static_cast<std::int32_t>(output.n),
                                    static_cast<std::int32_t>(tiles),
                                    output.accumulate ? 1 : 0,
                                    output.scale};
    tiles += divide_up(output.n, tile_rows);
  }
  return tiles;
}

/// A format's kernels of matrix tiles: large ones and gpu::small_matmul_tile.
struct MatmulTileKernels {
  Kernel<gpu::MatmulTileArgs> large;
  Kernel<gpu::MatmulTileArgs> small;
};

/// The large tiles of a family of kernels, and how many compute units one of them keeps busy.
struct LargeMatmulTile {
  gpu::MatmulTileShape shape = gpu::large_matmul_tile;
  int units = 1;
};

/// The outputs of one format, on matrix tiles: large ones where they occupy the whole device. `weight_stride` as set_parts
/// says.
void run_matmul_tiles(const MatmulTileKernels& kernels, DType dtype, std::int64_t weight_stride, const Matmul::Args& call,
                      const ConvertedRows& converted, Stream& stream, const LargeMatmulTile& large_tile = {});

}  // namespace rocmforge
