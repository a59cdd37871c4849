// One wave multiplies 16 x 16 x 16 tiles with every way of loading the operands. Used by tests alone.

#include "kernels/gpu/tile.h"
#include "tile_args.h"

namespace rocmforge::gpu {

template <class T>
__device__ void multiply_tiles(const TileArgs& args) {
  using Tile = MatrixTile<T>;
  __shared__ std::uint16_t shared_bits[16 * 24];
  T* shared = reinterpret_cast<T*>(shared_bits);
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  auto c = Tile::zero();
  for (int k = 0; k < args.k; k += 16) {
    const auto a_tile = Tile::load_a(a + k, args.k);
    if (args.b_source == 0) {
      Tile::multiply(c, a_tile, Tile::load_b(b + k, args.k));
    } else if (args.b_source == 1) {
      Tile::multiply(c, a_tile, Tile::load_b_k(b + k * 16, 16));
    } else {
      for (int i = thread_index(); i < 256; i += wave_size) {
        shared[(i / 16) * 24 + i % 16] = b[(k + i / 16) * 16 + i % 16];
      }
      sync_wave();
      Tile::multiply(c, a_tile, Tile::load_b_k(shared, 24));
      sync_wave();
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::c_elems; ++i) {
    args.c[Tile::c_row(i) * 16 + Tile::c_col(i)] = c[i];
  }
}

}  // namespace rocmforge::gpu

ROCMFORGE_KERNEL tile_half(rocmforge::gpu::TileArgs args) {
  rocmforge::gpu::multiply_tiles<rocmforge::half>(args);
}

ROCMFORGE_KERNEL tile_bfloat16(rocmforge::gpu::TileArgs args) {
  rocmforge::gpu::multiply_tiles<rocmforge::bfloat16>(args);
}
