#pragma once

#include <cstdint>
#include <initializer_list>

namespace rocmforge::hopper {

/// Attention of one query row a sequence over a latent plane; see latent_decode.cu.
struct LatentDecodeArgs {
  const float* q;  ///< [tokens, q_heads, head_dim], rows q_stride apart
  float* out;      ///< [tokens, q_heads, value_dim]
  const void* plane;
  const std::int32_t* block_tables;   ///< [sequences, max_blocks]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  const std::int32_t* kv_lengths;     ///< [sequences]
  float* sums;                        ///< [sequences of the launch, pieces, q_heads, value_dim]
  float* states;                      ///< [sequences of the launch, pieces, q_heads, 2]: maximum in units of log2, and sum
  std::int64_t q_stride;
  std::int64_t block_elems;
  std::int32_t max_blocks;
  std::int32_t block_shift;
  std::int32_t q_heads;
  std::int32_t first_sequence;  ///< of this launch
  std::int32_t pieces;          ///< most of any sequence
  std::int32_t q_aligned;       ///< rows of q begin at multiples of 16 bytes
  float scale_log2;             ///< scale * log2(e)
};

/// Heads of a work-group, in eights: as many as leave q and the sums room in the registers.
constexpr int latent_tile_heads(int head_dim) { return head_dim > 320 ? 24 : 32; }
inline constexpr int latent_tile_keys = 64;
inline constexpr int latent_stage_keys = 32;  ///< that are copied, and waited for, together
inline constexpr int latent_stages = 5;
inline constexpr int latent_decode_warps = 16;
inline constexpr int latent_key_groups = 4;  ///< of 16 keys of a tile, each of four warps
inline constexpr int latent_dim_parts = latent_decode_warps / latent_key_groups;  ///< of a score, each of a warp
inline constexpr int latent_stages_of_tile = latent_tile_keys / latent_stage_keys;
inline constexpr int latent_rows_of_warp = latent_tile_keys / latent_decode_warps;  ///< that it copies of a tile
inline constexpr int latent_warps_of_stage = latent_decode_warps / latent_stages_of_tile;
/// Tiles that fill the ring, the last one in part.
inline constexpr int latent_fills = (latent_stages + latent_stages_of_tile - 1) / latent_stages_of_tile;
inline constexpr int latent_stage_arrivals = 1;  ///< the stage's first warp, and the bytes of all of its warps
inline constexpr int latent_merge_threads = 512;
inline constexpr int latent_merge_values = 128;  ///< of a head, that a work-group adds up
/// As many as an H200 has multiprocessors, each of which holds one work-group.
inline constexpr std::int32_t most_pieces_of_a_sequence = 132;
inline constexpr std::int32_t most_few_latent_pieces = latent_merge_threads / 32;  ///< that one warp adds up

inline constexpr std::int32_t most_keys_of_short_pieces = 1024;  ///< of a sequence whose pieces are one tile
inline constexpr std::int32_t most_keys_of_double_pieces = 2 * latent_tile_keys * most_pieces_of_a_sequence;

/// How a sequence's keys are cut into pieces of whole tiles; depends on the number of keys alone. A single sequence should
/// occupy many multiprocessors, but the parts of its pieces are as long as some 40 keys and must be added up.
struct LatentCut {
  std::int32_t pieces;
  std::int32_t tiles;   ///< of a piece; the last one may have fewer
  std::int32_t longer;  ///< so many of the first pieces have one tile more

  /// Where piece `piece` begins; the end of all keys for `piece` = pieces or more.
  [[nodiscard]] constexpr std::int32_t begin(std::int32_t piece, std::int32_t keys) const {
    const std::int32_t tile = piece * tiles + (piece < longer ? piece : longer);
    return tile < (keys + latent_tile_keys - 1) / latent_tile_keys ? tile * latent_tile_keys : keys;
  }
};
constexpr LatentCut latent_cut(std::int32_t keys) {
  const std::int32_t tiles = (keys + latent_tile_keys - 1) / latent_tile_keys;
  if (keys <= most_keys_of_short_pieces) {
    return {tiles, 1, 0};
  }
  if (keys <= most_keys_of_double_pieces) {
    return {(tiles + 1) / 2, 2, 0};
  }
  return {most_pieces_of_a_sequence, tiles / most_pieces_of_a_sequence, tiles % most_pieces_of_a_sequence};
}
constexpr std::int32_t latent_pieces(std::int32_t keys) { return latent_cut(keys).pieces; }
/// The most pieces of any sequence of up to `keys` keys.
constexpr std::int32_t most_latent_pieces(std::int32_t keys) {
  std::int32_t most = latent_pieces(keys);
  for (const std::int32_t below : {most_keys_of_short_pieces, most_keys_of_double_pieces}) {
    most = keys > below && latent_pieces(below) > most ? latent_pieces(below) : most;
  }
  return most;
}

/// Shared memory: the ring of keys; q, and once that is in registers the parts of a tile's scores; weights of a tile; the
/// factors of earlier sums; the barriers. Rows are padded so that neighbours lie in different banks.
struct LatentDecodeShared {
  int row_bytes;  ///< of q and of keys
  int stage_bytes;
  int q;
  int weights;
  int keep;
  int barriers;
  int bytes;
};
inline constexpr int latent_weight_row_bytes = latent_tile_keys * 2 + 16;
inline constexpr int latent_score_row_bytes = latent_tile_keys * 4 + 16;  ///< of a head
constexpr LatentDecodeShared latent_decode_shared(int head_dim) {
  const int heads = latent_tile_heads(head_dim);
  LatentDecodeShared shared{};
  shared.row_bytes = head_dim * 2 + 16;
  shared.stage_bytes = latent_stage_keys * shared.row_bytes;
  shared.q = latent_stages * shared.stage_bytes;
  const int scores_bytes = latent_dim_parts * heads * latent_score_row_bytes;
  const int q_bytes = heads * shared.row_bytes;
  shared.weights = shared.q + (q_bytes > scores_bytes ? q_bytes : scores_bytes);
  shared.keep = shared.weights + heads * latent_weight_row_bytes;
  shared.barriers = shared.keep + heads * 4;
  shared.bytes = shared.barriers + latent_stages * 8;
  return shared;
}

}  // namespace rocmforge::hopper
