#include "kernels/experts/portable/experts_tiles.h"

#include <algorithm>

#include "kernels/launch/gpu_kernel.h"
#include "kernels/launch/places.h"
#include "kernels/matmul/portable/matmul_convert.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::SortSlotsArgs> sort_kernel{"experts", "sort_slots", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ConvertSlotsArgs> slots_to_half{"experts", "convert_slots_f16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::ConvertSlotsArgs> slots_to_bfloat16{"experts", "convert_slots_bf16", LaunchOrder::by_kernel};
constexpr Kernel<gpu::SumSlotsArgs> sum_kernel{"experts", "sum_slots", LaunchOrder::by_kernel};

/// What a call with many tokens keeps in its workspace.
struct TileWorkspace {
  std::uint16_t* x = nullptr;  ///< [slots, padded k] by place
  float* scales = nullptr;     ///< [slots] by place
  float* products = nullptr;   ///< [slots, n] of down
  std::size_t bytes = 0;

  TileWorkspace(std::int64_t slots, std::int64_t n, std::int64_t k, void* base) {
    Places places(base);
    places.take(x, slots * converted_stride(k));
    places.take(scales, slots);
    places.take(products, slots * n);
    bytes = places.bytes();
  }
};

}  // namespace

LaunchShape expert_grid(std::int64_t columns, std::int64_t rows, int threads) {
  constexpr std::int64_t most_rows = 65535;  // kernels that may be asked for more walk over the rest
  LaunchShape shape;
  shape.grid = {static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(std::min(rows, most_rows)), 1};
  shape.block[0] = static_cast<std::uint32_t>(threads);
  return shape;
}

SortedSlots::SortedSlots(std::int64_t slot_count, std::int64_t experts, int tokens_of_tile, void* base)
    : tile_tokens(tokens_of_tile),
      slots(slot_count),
      most_tiles(slot_count / tokens_of_tile + std::min(slot_count, experts)) {
  Places places(base);
  places.take(order, slots);
  places.take(tiles, most_tiles);
  places.take(tile_count, 2);
  bytes = places.bytes();
}

gpu::SortSlotsArgs SortedSlots::sorting(const ExpertMatmul::Args& args) const {
  return {.ids = args.ids,
          .order = order,
          .tiles = tiles,
          .tile_count = tile_count,
          .slots = static_cast<std::int32_t>(slots),
          .experts = static_cast<std::int32_t>(args.experts),
          .tile_tokens = tile_tokens,
          .unused = 0};
}

void SortedSlots::sort(const ExpertMatmul::Args& args, Stream& stream) const {
  sort_kernel.launch(stream, expert_grid(1, 1, gpu::sort_threads), sorting(args));
}

void sum_slots(const ExpertMatmul::Args& args, const float* products, Stream& stream) {
  const std::int64_t n = args.weights[0].n;
  sum_kernel.launch(stream, expert_grid(divide_up(n, gpu::sum_threads), args.tokens, gpu::sum_threads),
                    {.products = products,
                     .shares = args.shares,
                     .out = args.out,
                     .tokens = args.tokens,
                     .n = static_cast<std::int32_t>(n),
                     .used = static_cast<std::int32_t>(args.used)});
}

std::size_t expert_tiles_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) {
  return TileWorkspace(tokens * spec.used, spec.n, spec.k, nullptr).bytes;
}

std::size_t expert_order_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens) {
  return SortedSlots(tokens * spec.used, spec.experts, gpu::expert_tile.tokens, nullptr).bytes;
}

void run_expert_tiles(const ExpertMatmul::Args& args, const ExpertTiles& tiles, Stream& stream) {
  check(args.workspace != nullptr && args.order != nullptr,
        "expert_matmul: no workspace for the activations, or none for the order of slots");
  const SortedSlots sorted(args.tokens * args.used, args.experts, gpu::expert_tile.tokens, args.order);
  const auto n = static_cast<std::int32_t>(args.weights[0].n);
  const TileWorkspace space(sorted.slots, n, args.k, args.workspace);
  if (!tiles.sorted) {
    sorted.sort(args, stream);
  }
  const auto padded_k = static_cast<std::int32_t>(converted_stride(args.k));
  const gpu::ConvertRowsArgs rows{args.x, args.k, space.x, space.scales, static_cast<std::int32_t>(args.k), padded_k};
  (tiles.bfloat ? slots_to_bfloat16 : slots_to_half)
      .launch(stream, expert_grid(sorted.slots, 1, gpu::convert_threads),
              {.rows = rows,
               .order = sorted.order,
               .slots_of_row = static_cast<std::int32_t>(args.down() ? 1 : args.used),
               .unused = 0});
  for (std::size_t i = 0; i < args.weights.size(); ++i) {
    const ExpertWeight& weight = args.weights[i];
    const LaunchShape shape =
        expert_grid(sorted.most_tiles, divide_up(weight.n, gpu::expert_tile.rows), gpu::expert_tile.threads);
    tiles.kernel.launch(stream, shape,
                        {.weight = static_cast<const std::uint8_t*>(weight.data),
                         .expert_bytes = weight.expert_bytes,
                         .finish = expert_finish(weight),
                         .row_bytes = tiles.weight_stride,
                         .x = space.x,
                         .x_scales = space.scales,
                         .order = sorted.order,
                         .tiles = sorted.tiles,
                         .tile_count = sorted.tile_count,
                         .out = args.down() ? space.products : args.out,
                         .n = n,
                         .k = static_cast<std::int32_t>(args.k),
                         .padded_k = padded_k,
                         .gated = args.alone ? 2 : static_cast<std::int32_t>(i),
                         .activation = args.activation,
                         .dtype = weight.dtype});
  }
  if (args.down()) {
    sum_slots(args, space.products, stream);
  }
}

}  // namespace rocmforge
