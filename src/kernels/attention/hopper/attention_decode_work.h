#pragma once

// The list of a decode step's work: for every sequence, every tile of query heads, the pieces of its keys. Each warp reads
// the lengths itself, so that the grid depends on the batch's bounds alone.

#include "kernels/attention/hopper/attention_decode_args.h"

namespace rocmforge::hopper {

inline constexpr int tile_keys = decode_tile_keys;
inline constexpr std::uint32_t all_lanes = 0xffffffffu;

__device__ inline int sum_of_lanes(int value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    value += __shfl_xor_sync(all_lanes, value, mask);
  }
  return value;
}

/// One sequence's share of the list: `heads` times `pieces` entries of `piece` tiles, the last of a head shorter.
struct DecodeKeys {
  int kv_len = 0;
  int tile_begin = 0;
  int tiles = 0;
  int piece = 1;
  int pieces = 1;

  __device__ DecodeKeys(const AttentionDecodeArgs& args, int length) {
    kv_len = length;
    tile_begin = args.window > 0 ? max(0, kv_len - args.window) / tile_keys : 0;
    tiles = (kv_len + tile_keys - 1) / tile_keys - tile_begin;
    piece = args.split.piece(tiles);
    pieces = args.split.pieces(tiles);
  }
  __device__ int first_key(const AttentionDecodeArgs& args) const {
    return args.window > 0 ? max(0, kv_len - args.window) : 0;
  }
  /// Tiles of one head; a sequence without keys counts as one, for its zeros are written too.
  __device__ int length() const { return max(tiles, 1); }
};

/// Goes through the entries of one work-group; the same in all lanes of a warp.
struct DecodeWalk : DecodeShare {
  const AttentionDecodeArgs& args;
  int sequence = 0;
  int kv_head = 0;
  int head_tile = 0;  ///< of the KV head's query heads
  int split = 0;
  int head_start = 0;  ///< the list's tiles before this head
  DecodeKeys keys;

  __device__ explicit DecodeWalk(const AttentionDecodeArgs& arguments) : args(arguments), keys(arguments, 0) {
    const int first_cost = cost_of(static_cast<int>(threadIdx.x) % 32);
    int mine = first_cost;
#pragma unroll 4
    for (int s = 32 + static_cast<int>(threadIdx.x) % 32; s < args.num_sequences; s += 32) {
      mine += cost_of(s);
    }
    const int total = sum_of_lanes(mine);
    set(total, blockIdx.x, static_cast<int>(gridDim.x));
    if (begin < end) {
      find_first(first_cost);
    } else {
      head_start = end;  // nothing to do
    }
  }
  [[nodiscard]] __device__ bool valid() const { return start() < end; }
  [[nodiscard]] __device__ int tile_begin() const { return keys.tile_begin + split * keys.piece; }
  [[nodiscard]] __device__ int tile_end() const { return keys.tile_begin + min((split + 1) * keys.piece, keys.tiles); }
  [[nodiscard]] __device__ bool first_of_group() const { return split == 0 || start() - keys.piece < begin; }
  [[nodiscard]] __device__ bool last_of_group() const { return split + 1 == keys.pieces || start() + keys.piece >= end; }
  /// The work-group has all pieces of the head.
  [[nodiscard]] __device__ bool whole() const { return DecodeShare::whole(head_start, keys.pieces, keys.piece); }
  /// The work-group that has the head's first piece.
  [[nodiscard]] __device__ int owner() const { return DecodeShare::owner(head_start); }

  __device__ void advance() {
    if (++split < keys.pieces) {
      return;
    }
    split = 0;
    head_start += keys.length();
    if (++head_tile < args.head_tiles) {
      return;
    }
    head_tile = 0;
    if (++kv_head < args.kv_heads || head_start >= end) {
      return;
    }
    kv_head = 0;
    do {
      ++sequence;
    } while (cost_of(sequence) == 0);
    keys = DecodeKeys(args, args.kv_lengths[sequence]);
  }

 private:
  [[nodiscard]] __device__ int start() const { return head_start + split * keys.piece; }
  [[nodiscard]] __device__ int heads() const { return args.kv_heads * args.head_tiles; }
  [[nodiscard]] __device__ int cost_of(int s) const {
    if (s >= args.num_sequences) {
      return 0;
    }
    const int rows = args.query_offsets[s + 1] - args.query_offsets[s];
    const int kv_len = args.kv_lengths[s];
    return rows == 1 ? heads() * DecodeKeys(args, kv_len).length() : 0;
  }
  /// The first entry that starts at or after `begin`.
  __device__ void find_first(int cost) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int before = 0;  // tiles of the sequences before those of this round
    for (int base = 0;; base += 32) {
      cost = base == 0 ? cost : cost_of(base + lane);
      int through = cost;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(all_lanes, through, distance);
        through += lane >= distance ? other : 0;
      }
      const std::uint32_t beyond = __ballot_sync(all_lanes, before + through > begin);
      if (beyond != 0) {
        const int found = __ffs(static_cast<int>(beyond)) - 1;
        sequence = base + found;
        before += __shfl_sync(all_lanes, through - cost, found);
        break;
      }
      before += __shfl_sync(all_lanes, through, 31);
    }
    keys = DecodeKeys(args, args.kv_lengths[sequence]);
    const int head = (begin - before) / keys.length();
    kv_head = head / args.head_tiles;
    head_tile = head % args.head_tiles;
    head_start = before + head * keys.length();
    split = (begin - head_start + keys.piece - 1) / keys.piece;
    if (split == keys.pieces) {
      --split;
      advance();
    }
  }
};

}  // namespace rocmforge::hopper
