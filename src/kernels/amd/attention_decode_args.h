#pragma once

#include <cstdint>

#include "kernels/gpu/attention_args.h"
#include "kernels/gpu/rope_args.h"

namespace rocmforge::amd {

/// Keys that a work-group reads in one round; pieces are multiples of it and begin at multiples of it.
inline constexpr std::int32_t decode_round_keys = 128;
/// Pieces of a row at most, whatever the device.
inline constexpr std::int32_t most_decode_pieces = 64;

/// Decode attention; see attention_decode.h. Grid: pieces of the longest row, KV heads x tiles of their query heads,
/// sequences.
struct DecodeArgs {
  gpu::AttentionArgs call;
  std::int32_t group;          ///< query heads of a KV head
  std::uint32_t tile_factor;   ///< x * tile_factor >> 16 is x / group_tiles, for all KV heads x tiles
  std::int32_t pieces;         ///< into which a row is cut at most; the rounds of each follow from that
  gpu::RopeAppendArgs append;  ///< of the same rows and pages; its q is null where that was a launch of its own
};

/// Of x * tile_factor(tiles) >> 16 = x / tiles, for x * tiles below 65,536.
constexpr std::uint32_t tile_factor(std::int32_t tiles) { return 65536u / static_cast<std::uint32_t>(tiles) + 1u; }

/// Threads of a work-group for `heads` query heads of up to `dims` elements: its waves' sums lie in shared memory together.
constexpr int decode_threads(int heads, int dims) {
  const int values = heads * dims;
  return values <= 512 ? 512 : values <= 1024 ? 256 : 128;
}

}  // namespace rocmforge::amd
