// Choice of experts, and products with their matrices: expert_gate_up_FORMAT, expert_down_FORMAT, expert_tiles_FORMAT. See
// experts.h.

#include "kernels/experts/portable/experts.h"
#include "kernels/experts/portable/route.h"

using namespace rocmforge;
using rocmforge::gpu::BlockCoded;
using rocmforge::gpu::ConvertSlotsArgs;
using rocmforge::gpu::ExpertTileArgs;
using rocmforge::gpu::ExpertVectorArgs;
using rocmforge::gpu::RouteArgs;
using rocmforge::gpu::SortSlotsArgs;
using rocmforge::gpu::SumSlotsArgs;

ROCMFORGE_KERNEL __launch_bounds__(gpu::wave_size) route_tokens(RouteArgs args) {
  __shared__ gpu::RouteShared shared;
  gpu::begin_dependent();
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const int logits = args.choice.experts + (args.choice.shared_gates != 0 ? args.choice.shared : 0);
  gpu::choose_experts(args.choice, args.logits + token * logits, token, shared);
}

ROCMFORGE_KERNEL __launch_bounds__(gpu::sort_threads) sort_slots(SortSlotsArgs args) {
  static_assert(gpu::sort_threads >= gpu::most_experts);
  __shared__ std::int32_t next[gpu::most_experts];    // slots of each expert, then the place of the next of them
  __shared__ std::int32_t counts[gpu::most_experts];  // slots of each expert
  __shared__ std::int32_t tiles[gpu::most_experts];   // its tiles
  const int expert = gpu::thread_index();
  if (expert < args.experts) {
    next[expert] = 0;
  }
  gpu::begin_dependent();
  __syncthreads();
  for (int slot = gpu::thread_index(); slot < args.slots; slot += gpu::sort_threads) {
    atomicAdd(&next[args.ids[slot]], 1);
  }
  __syncthreads();
  const int count = expert < args.experts ? next[expert] : 0;
  if (expert < args.experts) {
    counts[expert] = count;
    tiles[expert] = (count + args.tile_tokens - 1) / args.tile_tokens;
  }
  __syncthreads();
  if (expert < args.experts) {
    int place = 0;
    int tile = 0;
    for (int e = 0; e < expert; ++e) {
      place += counts[e];
      tile += tiles[e];
    }
    next[expert] = place;
    for (int first = 0; first < count; first += args.tile_tokens, ++tile) {
      args.tiles[tile] = {expert, place + first, min(count - first, args.tile_tokens), 0};
    }
    if (expert == args.experts - 1) {
      args.tile_count[0] = tile;
    }
  }
  __syncthreads();
  for (int slot = gpu::thread_index(); slot < args.slots; slot += gpu::sort_threads) {
    args.order[atomicAdd(&next[args.ids[slot]], 1)] = slot;
  }
}

namespace rocmforge::gpu {
namespace {

/// The row of x that belongs to a place, as row 0 of a conversion that writes the row of that place.
__device__ ConvertRowsArgs row_of_place(const ConvertSlotsArgs& args) {
  const auto place = static_cast<std::int64_t>(blockIdx.x);
  ConvertRowsArgs own = args.rows;
  own.x += (args.order[place] / args.slots_of_row - place) * own.x_stride;
  return own;
}

}  // namespace
}  // namespace rocmforge::gpu

ROCMFORGE_KERNEL __launch_bounds__(gpu::convert_threads) convert_slots_f16(ConvertSlotsArgs args) {
  gpu::begin_dependent();
  gpu::convert_row<half>(gpu::row_of_place(args));
}
ROCMFORGE_KERNEL __launch_bounds__(gpu::convert_threads) convert_slots_bf16(ConvertSlotsArgs args) {
  gpu::begin_dependent();
  gpu::convert_row<bfloat16>(gpu::row_of_place(args));
}

ROCMFORGE_KERNEL __launch_bounds__(gpu::sum_threads) sum_slots(SumSlotsArgs args) {
  gpu::begin_dependent();
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    for (int i = static_cast<int>(blockIdx.x) * gpu::sum_threads + gpu::thread_index(); i < args.n;
         i += static_cast<int>(gridDim.x) * gpu::sum_threads) {
      float sum = 0.0f;
      for (std::int64_t slot = token * args.used; slot < (token + 1) * args.used; ++slot) {
        sum = fmaf(args.shares[slot], args.products[slot * args.n + i], sum);
      }
      args.out[token * args.n + i] += sum;
    }
  }
}

#define ROCMFORGE_EXPERT_VECTORS(format, Block, Element, rows)                   \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups(1)) \
      expert_gate_up_##format(ExpertVectorArgs args) {                           \
    gpu::expert_gate_up<Block, gpu::expert_pairs(rows)>(args);                   \
  }                                                                              \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::matvec_threads, gpu::matvec_groups(1)) \
      expert_down_##format(ExpertVectorArgs args) {                              \
    gpu::expert_down<Block, rows>(args);                                         \
  }
#define ROCMFORGE_EXPERT_TILES(format, Block, Element, rows)                                                \
  ROCMFORGE_KERNEL __launch_bounds__(gpu::expert_tile.threads) expert_tiles_##format(ExpertTileArgs args) { \
    gpu::begin_dependent();                                                                                 \
    gpu::expert_tiles<Block, Element>(args);                                                                \
  }

ROCMFORGE_MATMUL_FORMATS(ROCMFORGE_EXPERT_VECTORS)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_EXPERT_VECTORS)
ROCMFORGE_MATMUL_TILE_FORMATS(ROCMFORGE_EXPERT_TILES)
ROCMFORGE_MATMUL_CODED(ROCMFORGE_EXPERT_TILES)
