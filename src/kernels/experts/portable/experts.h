#pragma once

// Products with the matrices of chosen experts, from the parts of the dense products. Few tokens: matvec.h, a slot after
// another, so that a token's sums have the same order in every call. Many: the slots are sorted by expert on the device, and
// matmul.h computes tiles of slots of one expert.

#include "kernels/experts/portable/experts_args.h"
#include "kernels/matmul/portable/matmul.h"
#include "kernels/tile/activation.h"

namespace rocmforge::gpu {

__device__ inline float finished(const ExpertFinish& finish, int expert, int row, float product) {
  const float scaled = finish.scale != nullptr ? product * finish.scale[expert] : product;
  return finish.bias != nullptr ? scaled + finish.bias[expert * finish.bias_stride + row] : scaled;
}

/// The arguments of a product of one row of x.
__device__ inline MatvecArgs one_token(const ExpertVectorArgs& args, std::int64_t row) {
  MatvecArgs own;
  own.x = args.x + row * args.k;
  own.x_stride = args.k;
  own.k = args.k;
  own.tokens = 1;
  own.chunk = args.chunk;
  own.x_aligned = args.x_aligned;
  own.dtype = args.dtype;
  return own;
}

/// The addresses of the first rows of this wave in weight `which` of an expert.
template <int rows>
__device__ inline void expert_rows(const ExpertVectorArgs& args, int which, int expert, int first_row,
                                   const std::uint8_t** pointers) {
  const std::uint8_t* matrix = args.weights[which] + expert * args.expert_bytes[which];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    pointers[r] = matrix + min(first_row + r, args.n - 1) * args.row_bytes;
  }
}

template <class Block, int pairs>
__device__ inline void expert_gate_up(const ExpertVectorArgs& args) {
  constexpr int waves = matvec_threads / wave_size;
  begin_dependent();
  const int first_row = (static_cast<int>(blockIdx.x) * waves + wave_index()) * pairs;
  for (int slot = static_cast<int>(blockIdx.y); slot < args.count; slot += static_cast<int>(gridDim.y)) {
    const std::uint8_t* weights[2 * pairs];
    const int expert = args.ids[slot];
    expert_rows<pairs>(args, 0, expert, first_row, weights);
    expert_rows<pairs>(args, 1, expert, first_row, weights + pairs);
    float sums[2 * pairs][1] = {};
    wave_products<Block, 1, 2 * pairs>(one_token(args, slot / args.used), weights, staged_chunk(), sums);
#pragma unroll
    for (int r = 0; r < pairs; ++r) {
      const float gate = wave_reduce<Sum>(sums[r][0]);
      const float up = wave_reduce<Sum>(sums[pairs + r][0]);
      if (const int row = first_row + r; lane_index() == r && row < args.n) {
        args.out[static_cast<std::int64_t>(slot) * args.n + row] = activate(
            args.activation, finished(args.finish[0], expert, row, gate), finished(args.finish[1], expert, row, up));
      }
    }
    __syncthreads();  // before x of the next slot comes
  }
}

template <class Block, int rows>
__device__ inline void expert_down(const ExpertVectorArgs& args) {
  constexpr int waves = matvec_threads / wave_size;
  begin_dependent();
  const int first_row = (static_cast<int>(blockIdx.x) * waves + wave_index()) * rows;
  for (int token = static_cast<int>(blockIdx.y); token < args.count; token += static_cast<int>(gridDim.y)) {
    float total = 0.0f;  // of the row with this lane's number
    for (int slot = token * args.used; slot < (token + 1) * args.used; ++slot) {
      const std::uint8_t* weights[rows];
      const int expert = args.ids[slot];
      expert_rows<rows>(args, 0, expert, first_row, weights);
      float sums[rows][1] = {};
      wave_products<Block, 1, rows>(one_token(args, slot / args.slots_of_row), weights, staged_chunk(), sums);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const float product = wave_reduce<Sum>(sums[r][0]);
        if (const int row = first_row + r; lane_index() == r && row < args.n) {
          const float share = args.alone != 0 ? 1.0f : args.shares[slot];
          total = fmaf(share, finished(args.finish[0], expert, row, product), total);
        }
      }
      __syncthreads();
    }
    if (const int row = first_row + lane_index(); lane_index() < rows && row < args.n) {
      float* out = args.out + static_cast<std::int64_t>(token) * args.n + row;
      *out = args.alone != 0 ? activate_alone(args.activation, total) : *out + total;
    }
  }
}

/// A tile's slots as tokens of a dense product, and its expert's matrix as the product's weight.
__device__ inline void expert_product(const ExpertTileArgs& args, const ExpertTile& tile, MatmulTileArgs& product,
                                      MatmulPart& part) {
  product.x = args.x;
  product.x_scales = args.x_scales;
  product.k = args.k;
  product.padded_k = args.padded_k;
  product.tokens = tile.first + tile.count;
  product.dtype = args.dtype;
  part = {};
  part.weight = args.weight + tile.expert * args.expert_bytes;
  part.row_bytes = args.row_bytes;
  part.n = args.n;
  part.scale = 1.0f;
}

/// Finishes an output of a tile: of the slot at `place`, or nothing beyond the tile's slots and rows.
__device__ inline void store_slot(const ExpertTileArgs& args, const ExpertTile& tile, int place, int row, float sum) {
  if (place < tile.first + tile.count && row < args.n) {
    float* out = args.out + static_cast<std::int64_t>(args.order[place]) * args.n + row;
    const float y = finished(args.finish, tile.expert, row, sum * args.x_scales[place]);
    *out = args.gated == 2 ? activate_alone(args.activation, y) : args.gated == 1 ? activate(args.activation, *out, y) : y;
  }
}

template <class Block, class Element>
__device__ inline void expert_tiles(const ExpertTileArgs& args) {
  using Body = MatmulTile<Block, Element, expert_tile>;
  __shared__ typename Body::Shared shared;
  if (static_cast<int>(blockIdx.x) >= *args.tile_count) {
    return;
  }
  const ExpertTile tile = args.tiles[blockIdx.x];
  MatmulTileArgs own;
  MatmulPart part;
  expert_product(args, tile, own, part);
  const Body body{own, part, tile.first, static_cast<int>(blockIdx.y) * expert_tile.rows};
  body.run(shared, [&](int place, int row, float sum) { store_slot(args, tile, place, row, sum); });
}

}  // namespace rocmforge::gpu
