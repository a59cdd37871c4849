// The attainable peak speeds of the device, with which the speeds of kernels are compared.

#include "kernels/check/ceiling_args.h"
#include "kernels/tile/tile.h"

namespace rocmforge::gpu {

struct alignas(16) Word {
  std::uint32_t parts[4];
};

ROCMFORGE_KERNEL ceiling_read(CeilingReadArgs args) {
  __shared__ std::uint32_t scratch[1024 / wave_size];
  constexpr int unroll = 8;  // loads in flight
  const Word* from = static_cast<const Word*>(args.from);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::uint32_t sum = 0;
  for (; index + (unroll - 1) * stride < args.count; index += unroll * stride) {
    Word words[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      words[u] = from[index + u * stride];
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      sum += words[u].parts[0] ^ words[u].parts[1] ^ words[u].parts[2] ^ words[u].parts[3];
    }
  }
  for (; index < args.count; index += stride) {
    const Word word = from[index];
    sum += word.parts[0] ^ word.parts[1] ^ word.parts[2] ^ word.parts[3];
  }
  sum = block_reduce<Sum>(sum, scratch, std::uint32_t{0});
  if (threadIdx.x == 0) {
    args.sums[blockIdx.x] = sum;
  }
}

ROCMFORGE_KERNEL ceiling_matrix(CeilingMatrixArgs args) {
  using Tile = MatrixTile<half>;
  constexpr int sums = 8;  // independent products in flight
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const half* tiles = reinterpret_cast<const half*>(args.tiles) + thread / wave_size * 512;
  const auto a = Tile::load_a(tiles, 16);
  const auto b = Tile::load_b(tiles + 256, 16);
  typename Tile::C c[sums];
#pragma unroll
  for (int s = 0; s < sums; ++s) {
    c[s] = Tile::zero();
  }
  for (std::int64_t round = 0; round < args.rounds; ++round) {
#pragma unroll
    for (int s = 0; s < sums; ++s) {
      Tile::multiply(c[s], a, b);
    }
  }
  float total = 0.0f;
#pragma unroll
  for (int s = 0; s < sums; ++s) {
#pragma unroll
    for (int i = 0; i < Tile::c_elems; ++i) {
      total += c[s][i];
    }
  }
  args.sums[thread] = total;
}

}  // namespace rocmforge::gpu
