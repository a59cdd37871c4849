#pragma once

#include <cstdint>

#include "kernels/attention/hopper/attention_args.h"

namespace rocmforge::hopper {

/// Keys of a tile; tiles stand at multiples of it.
inline constexpr std::int32_t decode_tile_keys = 64;

/// A variant of the kernel: head_dim at most (64, 128, 256), query heads of a KV head at once (8, 16), groups of four warps
/// that take tiles in turns, whether K and V are Q8_0 or 16-bit numbers; and the sizes that follow.
struct DecodeShape {
  static constexpr std::int32_t warps_of_tile = 4;
  static constexpr std::int32_t most_slots = 16;
  std::int32_t padded;
  std::int32_t heads;
  std::int32_t groups;
  bool quants = false;

  [[nodiscard]] constexpr std::int32_t consumers() const { return groups * warps_of_tile; }
  [[nodiscard]] constexpr std::int32_t consumer_threads() const { return consumers() * 32; }
  /// One warp more, which copies; with register reallocation it comes with three others.
  [[nodiscard]] constexpr std::int32_t threads() const { return consumer_threads() + (groups > 1 ? 128 : 32); }
  /// Columns of 128 bytes of a row of K or V.
  [[nodiscard]] constexpr std::int32_t columns() const { return quants ? (padded + 127) / 128 : padded / 64; }
  /// Bytes of a tile of K or V, without scales.
  [[nodiscard]] constexpr std::int32_t slot_bytes() const { return columns() * 128 * decode_tile_keys; }
  /// Scales of a tile, 16 bits for 32 quants.
  [[nodiscard]] constexpr std::int32_t scale_bytes() const { return quants ? padded / 16 * decode_tile_keys : 0; }
  /// Floats of a head's sums, padded so that rows fall on different banks.
  [[nodiscard]] constexpr std::int32_t row_floats() const { return padded + 8; }
  /// Groups of four sums that a thread adds up.
  [[nodiscard]] constexpr std::int32_t quads_of_thread() const {
    return (heads * padded / 4 + consumer_threads() - 1) / consumer_threads();
  }
  /// q, sums and states of the warps, totals and their states, sinks.
  [[nodiscard]] constexpr std::int32_t other_bytes() const {
    return 16 * padded * 2 + consumers() * heads * (row_floats() + 2) * 4 + quads_of_thread() * consumer_threads() * 24 +
           heads * 4;
  }
  /// A multiple of the slots that all groups take at once, so that a group always reads the same slots: a group that missed
  /// some fillings of a slot could not tell them apart.
  [[nodiscard]] constexpr std::int32_t slots() const {
    constexpr std::int32_t shared_bytes_at_most = 227 * 1024;
    const std::int32_t slots = (shared_bytes_at_most - 2048 - other_bytes()) / (slot_bytes() + scale_bytes());
    const std::int32_t step = groups > 1 ? 2 * groups : 1;
    return (slots < most_slots ? slots : most_slots) / step * step;
  }
  /// Warps that copy; they take slots in turns. One takes some 850 clocks for a slot; a slot of quants arrives in 500.
  [[nodiscard]] constexpr std::int32_t producers() const { return quants && groups > 1 ? 4 : 1; }
  // Arrivals that complete a phase of a slot's barriers.
  static constexpr std::int32_t full_arrivals = 1;              ///< the warp that copies, and the bytes
  static constexpr std::int32_t free_arrivals = warps_of_tile;  ///< each warp of the group that the slot belongs to
  /// The above with barriers, a flag and room for alignment.
  [[nodiscard]] constexpr std::int32_t shared_bytes() const {
    return slots() * (slot_bytes() + scale_bytes() + 16) + other_bytes() + 32 + 1024;
  }
};

/// Groups of warps of the variants that exist: as many as registers and shared memory allow.
constexpr std::int32_t decode_groups(bool quants, std::int32_t padded, std::int32_t heads) {
  return padded <= 128 || (quants && heads <= 8) ? 2 : 1;
}

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

/// A work-group's share [begin, end) of the tiles of a step's list. All shares but the last ones are of `share` tiles. A
/// work-group has the pieces that begin in its share. Heads are known by where they start in the list.
struct DecodeShare {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::int32_t share = 1;  ///< tiles of each work-group; whole tiles, so that heads of one length are cut only where needed

  constexpr void set(std::int32_t total, std::uint32_t group, std::int32_t groups) {
    const std::int32_t each = (total + groups - 1) / groups;
    share = each > 1 ? each : 1;
    const std::int64_t first = group * std::int64_t{share};
    begin = static_cast<std::int32_t>(first < total ? first : std::int64_t{total});
    end = begin + share < total ? begin + share : total;
  }
  /// The work-group has all pieces of the head.
  [[nodiscard]] constexpr bool whole(std::int32_t head_start, std::int32_t pieces, std::int32_t piece) const {
    return head_start >= begin && head_start + (pieces - 1) * piece < end;
  }
  /// The work-group that has the head's first piece. Its counter counts the head's pieces: of heads that several
  /// work-groups share, no two have one owner, because the next one starts behind the owner's share.
  [[nodiscard]] constexpr std::int32_t owner(std::int32_t head_start) const { return head_start / share; }
  /// The first of the head's pieces that this work-group has, if it has one.
  [[nodiscard]] constexpr std::int32_t first_piece(std::int32_t head_start, std::int32_t piece) const {
    const std::int32_t first = (begin - head_start + piece - 1) / piece;
    return first > 0 ? first : 0;
  }
};

/// The block whose scales a decode work-group copies for an entry of the block table. A window's first tile may begin in
/// pages that the sequence has given up, whose entries are -1: of their quants the bulk copy engine makes zeros, but scales
/// come by address. Any block's do: scales of hidden keys are not used.
constexpr std::int32_t block_of_scales(std::int32_t entry) { return entry < 0 ? 0 : entry; }

/// Attention of sequences with one query row each. K and V come through tensor maps, as in AttentionPrefillArgs; quants of
/// Q8_0 as pairs, [num_blocks, 2 kv_heads, block_tokens, head_dim / 2], and their scales by addresses.
struct AttentionDecodeArgs {
  TensorMap k;
  TensorMap v;
  const void* q;  ///< [tokens, q_heads * head_dim] of IoType, rows q_stride apart
  std::int64_t q_stride;
  void* out;                          ///< [tokens, q_heads * head_dim] of IoType, dense
  const std::int32_t* query_offsets;  ///< [num_sequences + 1]; sequences without exactly one row are left alone
  const std::int32_t* kv_lengths;     ///< [num_sequences]
  const std::int32_t* block_tables;   ///< [num_sequences, max_blocks]; null for dense K and V
  const char* scales;                 ///< of KV head 0 of block 0: [block_tokens, head_dim / 32] of 16 bits; null if none
  std::int64_t scale_block_stride;    ///< bytes from block to block
  std::int64_t scale_head_stride;     ///< bytes from head to head: those of K, then those of V
  const float* sinks;                 ///< [q_heads] or null
  float* partial_sums;                ///< [work-groups, max_pieces, part_heads, padded head_dim]
  float* partial_states;              ///< [work-groups, max_pieces, part_heads, 2]: maximum and sum of weights
  std::uint32_t* counters;            ///< [work-groups], zero between launches
  DecodeSplit split;
  std::int32_t max_pieces;  ///< of the longest sequence
  std::int32_t part_heads;  ///< query heads that a work-group may have at once
  std::int32_t max_blocks;
  std::int32_t block_shift;  ///< log2(block_tokens)
  std::int32_t num_sequences;
  std::int32_t q_heads;
  std::int32_t kv_heads;
  std::int32_t group;       ///< query heads of a KV head
  std::int32_t head_tiles;  ///< tiles of the query heads of a KV head
  std::int32_t head_dim;
  std::int32_t window;     ///< 0 for none
  std::int32_t q_aligned;  ///< pairs of elements of q can be read at once
  IoType io;
  float scale;
  float soft_cap;  ///< 0 for none
};

}  // namespace rocmforge::hopper
