#pragma once

#include <cstdint>

#include "kernels/attention/portable/attention_args.h"
#include "kernels/rows/portable/rope_args.h"

namespace rocmforge::amd {

/// Keys that a work-group reads in one round; pieces are multiples of it and begin at multiples of it.
inline constexpr std::int32_t decode_round_keys = 128;
/// Pieces of a row at most, whatever the device.
inline constexpr std::int32_t most_decode_pieces = 64;

/// Decode attention; see attention_decode.h. Grid: pieces of the longest row, KV heads x tiles of their query heads,
/// sequences.
struct DecodeArgs {
  gpu::AttentionArgs call;
  std::int32_t group;           ///< query heads of a KV head
  std::uint32_t tile_factor;    ///< x * tile_factor >> 16 is x / group_tiles, for all KV heads x tiles
  std::int32_t pieces;          ///< the most pieces of a row; the rounds of each piece follow
  std::uint32_t pieces_factor;  ///< of `pieces`, for divide_by_pieces
  gpu::RopeAppendArgs append;   ///< of the same rows and pages; q is null where the append was a launch of its own
};

/// The factor for x * tile_factor(tiles) >> 16 = x / tiles, for x * tiles below 65,536.
constexpr std::uint32_t tile_factor(std::int32_t tiles) { return 65536u / static_cast<std::uint32_t>(tiles) + 1u; }

/// x / pieces by the number's factor, for x below 2^25 (2^31 over the pieces of a row at most): the factor is less than 1
/// above 2^31 / pieces.
constexpr std::uint32_t pieces_factor(std::int32_t pieces) { return (1u << 31) / static_cast<std::uint32_t>(pieces) + 1u; }
constexpr std::int32_t divide_by_pieces(std::int32_t x, std::uint32_t factor) {
  return static_cast<std::int32_t>(std::uint64_t{static_cast<std::uint32_t>(x)} * factor >> 31);
}

/// Threads of a work-group for `heads` query heads of up to `dims` elements, with waves of `wave` lanes: its waves' sums lie
/// in shared memory together.
constexpr int decode_threads(int heads, int dims, int wave) {
  const int values = heads * dims * 32 / wave;
  return values <= 512 ? 512 : values <= 1024 ? 256 : 128;
}

/// Whether a head has the same bits in a work-group of so many heads as alone: with as many threads, the keys of a lane and
/// the pieces of a thread are the same.
constexpr bool decode_heads_alike(int heads, int dims) { return heads * dims <= 512; }

}  // namespace rocmforge::amd
