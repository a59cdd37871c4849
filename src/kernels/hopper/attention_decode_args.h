#pragma once

#include <cstdint>

#include "kernels/hopper/attention_args.h"

namespace rocmforge::hopper {

/// Keys of a tile; tiles stand at multiples of it.
inline constexpr std::int32_t decode_tile_keys = 64;

/// How the tiles of a sequence are cut into pieces: by their number alone, so that the order of its sums depends on nothing
/// else. Up to `whole` tiles stay together; beyond that there are about `wanted` pieces of `least` to `most` tiles, and
/// never more than `limit` pieces.
struct DecodeSplit {
  std::int32_t whole;
  std::int32_t wanted;
  std::int32_t least;
  std::int32_t most;
  std::int32_t limit;

  [[nodiscard]] constexpr std::int32_t piece(std::int32_t tiles) const {
    if (tiles <= whole) {
      return tiles > 1 ? tiles : 1;
    }
    std::int32_t piece = (tiles + wanted - 1) / wanted;
    piece = piece < least ? least : piece > most ? most : piece;
    const std::int32_t smallest = (tiles + limit - 1) / limit;
    return piece < smallest ? smallest : piece;
  }
  [[nodiscard]] constexpr std::int32_t pieces(std::int32_t tiles) const {
    const std::int32_t size = piece(tiles);
    return tiles > 0 ? (tiles + size - 1) / size : 1;
  }
};

/// Attention of sequences with one query row each. K and V come through tensor maps, as in AttentionPrefillArgs.
struct AttentionDecodeArgs {
  TensorMapBytes k;
  TensorMapBytes v;
  const void* q;  ///< [tokens, q_heads * head_dim] of IoType, rows q_stride apart
  std::int64_t q_stride;
  void* out;                          ///< [tokens, q_heads * head_dim] of IoType, dense
  const std::int32_t* query_offsets;  ///< [num_sequences + 1]; sequences without exactly one row are left alone
  const std::int32_t* kv_lengths;     ///< [num_sequences]
  const std::int32_t* block_tables;   ///< [num_sequences, max_blocks]; null for dense K and V
  const float* sinks;                 ///< [q_heads] or null
  float* partial_sums;                ///< [work-groups, pieces, query heads of a tile, padded head_dim]
  float* partial_states;              ///< [work-groups, pieces, query heads of a tile, 2]: maximum and sum of weights
  std::uint32_t* counters;            ///< [work-groups], zero between launches
  DecodeSplit split;
  std::int32_t max_pieces;  ///< of the longest sequence
  std::int32_t max_blocks;
  std::int32_t block_shift;  ///< log2(block_tokens)
  std::int32_t num_sequences;
  std::int32_t q_heads;
  std::int32_t kv_heads;
  std::int32_t head_tiles;  ///< tiles of the query heads of a KV head
  std::int32_t head_dim;
  std::int32_t window;     ///< 0 for none
  std::int32_t q_aligned;  ///< pairs of elements of q can be read at once
  IoType io;
  float scale;
  float soft_cap;  ///< 0 for none
};

}  // namespace rocmforge::hopper
