#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "device/driver.h"
#include "kernels/experts/portable/experts_args.h"
#include "ops/experts.h"

namespace rocmforge {

/// The grid of a kernel of experts that walks over more rows than a grid may have.
LaunchShape expert_grid(std::int64_t columns, std::int64_t rows, int threads);

inline gpu::ExpertFinish expert_finish(const ExpertWeight& weight) {
  return {weight.bias, weight.scale, weight.bias_stride};
}

/// Whether there is room for so many experts, of which a token may take `most_used`.
inline Support check_expert_room(const ExpertMatmul::Spec& spec, std::int64_t most_used) {
  if (spec.experts > gpu::most_experts || spec.used > most_used) {
    return Support::no(fmt::format("more than {} of {} experts", most_used, gpu::most_experts));
  }
  return Support::yes();
}

/// The slots of a call sorted by expert, and the tiles of up to `tile_tokens` of them, which are of one expert each.
struct SortedSlots {
  int tile_tokens = 0;
  std::int64_t slots = 0;
  std::int64_t most_tiles = 0;    ///< the most that they may need, however the slots are distributed
  std::int32_t* order = nullptr;  ///< [slots]
  gpu::ExpertTile* tiles = nullptr;
  std::int32_t* tile_count = nullptr;  ///< as SortSlotsArgs says
  std::size_t bytes = 0;               ///< from `base` on

  SortedSlots(std::int64_t slots, std::int64_t experts, int tile_tokens, void* base);
  void sort(const ExpertMatmul::Args& args, Stream& stream) const;
  [[nodiscard]] gpu::SortSlotsArgs sorting(const ExpertMatmul::Args& args) const;
};

/// out[token] += the weighted sum of the `products` [slots, n] of down.
void sum_slots(const ExpertMatmul::Args& args, const float* products, Stream& stream);

/// Bytes of scratch memory of run_expert_tiles(), and of memory for the order of slots.
std::size_t expert_tiles_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens);
std::size_t expert_order_bytes(const ExpertMatmul::Spec& spec, std::int64_t tokens);

/// Many tokens: slots sorted by expert, their inputs as 16-bit rows, and `kernel` for each weight, with tiles of
/// gpu::expert_tile; of down then the weighted sums.
struct ExpertTiles {
  const Kernel<gpu::ExpertTileArgs>& kernel;
  std::int64_t weight_stride = 0;  ///< ExpertTileArgs::row_bytes
  bool bfloat = false;             ///< bfloat16 rows in place of binary16
  bool sorted = false;             ///< the call before left the order of these slots
};
void run_expert_tiles(const ExpertMatmul::Args& args, const ExpertTiles& tiles, Stream& stream);

}  // namespace rocmforge
