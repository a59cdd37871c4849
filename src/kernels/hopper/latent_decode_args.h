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

inline constexpr int latent_tile_heads = 32;
inline constexpr int latent_tile_keys = 64;
inline constexpr int latent_decode_warps = 8;
inline constexpr int latent_key_groups = 4;  ///< of 16 keys of a tile, each of a warp for either half of the heads
inline constexpr int latent_merge_threads = 512;
inline constexpr int latent_merge_values = 128;  ///< of a head, that a work-group adds up
inline constexpr std::int32_t most_pieces_of_a_sequence = 128;

/// Keys of a piece, a multiple of a tile, by their number alone. A single sequence should occupy many multiprocessors, but
/// the parts of its pieces are as long as some 40 keys and must be added up.
constexpr std::int32_t latent_piece_keys(std::int32_t keys) {
  if (keys <= 1024) {
    return latent_tile_keys;
  }
  if (keys <= 4096) {
    return 2 * latent_tile_keys;
  }
  const std::int32_t tiles = (keys + latent_tile_keys - 1) / latent_tile_keys;
  const std::int32_t of_a_piece = (tiles + most_pieces_of_a_sequence - 1) / most_pieces_of_a_sequence;
  return (of_a_piece < 4 ? 4 : of_a_piece) * latent_tile_keys;
}
constexpr std::int32_t latent_pieces(std::int32_t keys) {
  const std::int32_t piece = latent_piece_keys(keys);
  return (keys + piece - 1) / piece;
}
/// The most pieces of any sequence of up to `keys` keys.
constexpr std::int32_t most_latent_pieces(std::int32_t keys) {
  std::int32_t most = latent_pieces(keys);
  for (const std::int32_t below : {1024, 4096, 32768}) {
    most = keys > below && latent_pieces(below) > most ? latent_pieces(below) : most;
  }
  return most;
}

/// Shared memory: q, two tiles of keys, the weights of a tile, maxima and sums of each warp, the barriers. Rows are 16 bytes
/// longer than their elements, so that eight of them lie in different banks.
struct LatentDecodeShared {
  int row_bytes;
  int keys;
  int weights;
  int maxima;
  int sums;
  int barriers;
  int bytes;
};
inline constexpr int latent_weight_row_bytes = latent_tile_keys * 2 + 16;
constexpr LatentDecodeShared latent_decode_shared(int head_dim) {
  LatentDecodeShared shared{};
  shared.row_bytes = head_dim * 2 + 16;
  shared.keys = latent_tile_heads * shared.row_bytes;
  shared.weights = shared.keys + 2 * latent_tile_keys * shared.row_bytes;
  shared.maxima = shared.weights + latent_tile_heads * latent_weight_row_bytes;
  shared.sums = shared.maxima + latent_key_groups * latent_tile_heads * 4;
  shared.barriers = shared.sums + latent_key_groups * latent_tile_heads * 4;
  shared.bytes = shared.barriers + 2 * 8;
  return shared;
}

}  // namespace rocmforge::hopper
