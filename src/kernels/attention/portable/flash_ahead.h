#pragma once

// K and V of fused attention on AMD's cards with matrix cores: read from memory into registers a whole tile before they are
// needed, and from there into shared memory. Fences and barriers order shared memory alone, so that loads stay in flight.

#include "kernels/attention/portable/flash_tile.h"

namespace rocmforge::gpu {

/// Where a tile of keys begins in K and in V, in elements after the start of the KV head. Keys from `end` on are read from
/// the place of the last key: their scores are masked and their weights are 0.
template <class Shape>
struct FlashTilePlace {
  /// CDNA has registers for a look-up that is on its way, and waits for it, and for what was read before it, a tile later.
  static constexpr bool waits_later = wave_size == 64;

  int first_key;
  int found_key;     ///< the tile's first one or the last of all
  int block;         ///< of found_key, where waits_later
  std::int64_t row;  ///< of the tile's first key, when the tile lies in one block

  /// A tile that lies in one block, or in a plain tensor, needs one look-up.
  __device__ static bool together(const AttentionArgs& args) {
    constexpr int most_stride = 1 << 20;  // offsets within a tile are numbers of 32 bits
    return (args.kv.block_tables == nullptr || (1 << args.kv.block_shift) >= Shape::keys) &&
           args.kv.token_stride < most_stride;
  }
  __device__ void look_up(const AttentionArgs& args, int sequence, int key, int end) {
    first_key = key;
    if constexpr (waits_later) {
      const KvAddress& kv = args.kv;
      found_key = min(key, end - 1);
      block = 0;
      if (kv.block_tables != nullptr) {
        block = kv.block_tables[std::int64_t{sequence} * kv.max_blocks + (found_key >> kv.block_shift)];
      }
    } else {
      row = kv_row(args.kv, sequence, min(key, end - 1));
    }
  }
  /// Completes the look-up; to be called before `row` is used.
  __device__ void arrive([[maybe_unused]] const AttentionArgs& args, [[maybe_unused]] int sequence) {
    if constexpr (waits_later) {
      const KvAddress& kv = args.kv;
      int found = __builtin_amdgcn_readfirstlane(block);
      asm volatile("" : "+s"(found));  // for dense tensors too: no wait for this load when its register is reused
      const bool dense = kv.block_tables == nullptr;
      const int key = dense ? found_key : found_key & ((1 << kv.block_shift) - 1);
      row = (dense ? sequence * kv.sequence_stride : found * kv.block_stride) + key * kv.token_stride;
    }
  }
};

/// What a thread takes of a tile of K: `count` times eight elements of a row.
template <class Shape, class T>
struct FlashKeyLoads {
  static constexpr int chunks = Shape::head_dim / 8;
  static constexpr int pieces = Shape::keys * chunks;
  static constexpr int count = (pieces + Shape::threads - 1) / Shape::threads;
  static constexpr bool whole = pieces % Shape::threads == 0;
  Bytes16 values[count];

  __device__ static int piece(int i) { return min(thread_index() + i * Shape::threads, pieces - 1); }

  __device__ __forceinline__ void load(const AttentionArgs& args, int sequence, const T* k,
                                       const FlashTilePlace<Shape>& place, int end, bool together) {
    if (together && place.first_key + Shape::keys <= end) {
      const T* tile = k + place.row;
      const auto stride = static_cast<std::uint32_t>(args.kv.token_stride);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        if constexpr (Shape::threads % chunks == 0) {  // the same piece of a row each time
          const std::uint32_t key = static_cast<std::uint32_t>(thread_index()) / chunks;
          const std::uint32_t dim = static_cast<std::uint32_t>(thread_index()) % chunks * 8;
          values[i] = *reinterpret_cast<const Bytes16*>(tile + i * (Shape::threads / chunks) * args.kv.token_stride +
                                                        (key * stride + dim));
        } else {
          const auto at = static_cast<std::uint32_t>(piece(i));
          values[i] = *reinterpret_cast<const Bytes16*>(tile + (at / chunks * stride + at % chunks * 8));
        }
      }
      return;
    }
    Bytes16 found[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int key = min(place.first_key + piece(i) / chunks, end - 1);
      found[i] = *reinterpret_cast<const Bytes16*>(k + kv_row(args.kv, sequence, key) + piece(i) % chunks * 8);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      settle(found[i].words);  // else both stores become one store to either address, in memory
      values[i] = found[i];
    }
  }
  /// As [key][dim].
  __device__ __forceinline__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (whole || thread_index() + i * Shape::threads < pieces) {
        *reinterpret_cast<Bytes16*>(to + piece(i) / chunks * Shape::stride + piece(i) % chunks * 8) = values[i];
      }
    }
  }
};

/// What a thread takes of a tile of V: `count` times eight dimensions of two neighbouring keys. Lanes beside each other take
/// four pairs of keys and then the next dimensions, so that a wave reads whole lines of memory.
///
/// Shared memory holds [dim][block of 8 keys]. Block b of dimension d lies at place b ^ d / alike_dims % blocks, which
/// avoids bank conflicts of a wave's stores; with Shape::eights_padded at b ^ d % 8 / (8 / blocks), which avoids those of
/// its loads.
template <class Shape, class T>
struct FlashValueLoads {
  static constexpr int chunks = Shape::head_dim / 8;
  static constexpr int blocks = Shape::keys / 8;
  static constexpr int pieces = blocks * 4 * chunks;
  static constexpr int count = (pieces + Shape::threads - 1) / Shape::threads;
  static constexpr bool whole = pieces % Shape::threads == 0;
  static_assert(Shape::Tile::values_by_dim && (blocks & (blocks - 1)) == 0);
  Bytes16 values[count][2];

  __device__ static int piece(int i) { return min(thread_index() + i * Shape::threads, pieces - 1); }
  /// The first key of a piece within the tile.
  __device__ static int first_key(int piece) { return piece / (4 * chunks) * 8 + piece % 4 * 2; }
  __device__ static int first_dim(int piece) { return piece / 4 % chunks * 8; }

  __device__ __forceinline__ void load(const AttentionArgs& args, int sequence, const T* v,
                                       const FlashTilePlace<Shape>& place, int end, bool together) {
    if (together && place.first_key + Shape::keys <= end) {
      const T* tile = v + place.row;
      const auto stride = static_cast<std::uint32_t>(args.kv.token_stride);
#pragma unroll
      for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          constexpr int threads_of_block = 4 * chunks;
          if constexpr (Shape::threads % threads_of_block == 0) {  // the same dimensions each time
            const T* from = tile + (i * (Shape::threads / threads_of_block) * 8 + r) * args.kv.token_stride;
            const auto key = static_cast<std::uint32_t>(first_key(thread_index()));
            values[i][r] = *reinterpret_cast<const Bytes16*>(
                from + (key * stride + static_cast<std::uint32_t>(first_dim(thread_index()))));
          } else {
            const auto key = static_cast<std::uint32_t>(first_key(piece(i)));
            values[i][r] = *reinterpret_cast<const Bytes16*>(
                tile + r * args.kv.token_stride + (key * stride + static_cast<std::uint32_t>(first_dim(piece(i)))));
          }
        }
      }
      return;
    }
    Bytes16 found[count][2];
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int key = min(place.first_key + first_key(piece(i)) + r, end - 1);
        found[i][r] = *reinterpret_cast<const Bytes16*>(v + kv_row(args.kv, sequence, key) + first_dim(piece(i)));
      }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        settle(found[i][r].words);
        values[i][r] = found[i][r];
      }
    }
  }
  __device__ __forceinline__ void store(T* to) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (whole || thread_index() + i * Shape::threads < pieces) {
        const int dim = first_dim(piece(i));
        if constexpr (Shape::eights_padded) {
          auto* words = reinterpret_cast<std::uint32_t*>(to + Shape::value_start(dim) + first_key(piece(i)) % 8);
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const int block = (first_key(piece(i)) / 8) ^ (j / (8 / blocks));
            words[j * (Shape::value_stride / 2) + 4 * block] = __builtin_amdgcn_perm(
                values[i][1].words[j / 2], values[i][0].words[j / 2], j % 2 == 0 ? 0x05040100u : 0x07060302u);
          }
          continue;
        }
        const int block = (first_key(piece(i)) / 8) ^ (dim / Shape::Tile::alike_dims % blocks);
        auto* words = reinterpret_cast<std::uint32_t*>(to + dim * Shape::value_stride + 8 * block + first_key(piece(i)) % 8);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t low = values[i][0].words[j];
          const std::uint32_t high = values[i][1].words[j];
          words[2 * j * (Shape::value_stride / 2)] = __builtin_amdgcn_perm(high, low, 0x05040100u);
          words[(2 * j + 1) * (Shape::value_stride / 2)] = __builtin_amdgcn_perm(high, low, 0x07060302u);
        }
      }
    }
  }
  /// The operand of 16 keys x 16 dimensions: tile `t` of keys, tile `d` of dimensions.
  __device__ __forceinline__ static typename Shape::Tile::Value operand(const T* values, int t, int d) {
    using Matrix = typename Shape::Tile::Tile;
    const int row = Matrix::a_row();
    const T* of_row = values + (16 * d + row) * Shape::value_stride;
    if constexpr (Shape::Tile::alike_dims == 16) {
      const int key = Matrix::first_k();
      const int block = (2 * t + (key >> 3)) ^ (d & (blocks - 1));
      return *reinterpret_cast<const typename Shape::Tile::Value*>(of_row + 8 * block + (key & 7));
    }
    const T* from = of_row + 16 * (t ^ (d & (blocks / 2 - 1)));
    int turned = row >> 3;  // the two blocks of the 16 keys change places
    if constexpr (Shape::eights_padded) {
      const int place = (row & 7) / (8 / blocks);
      from = values + Shape::value_start(16 * d) + row * Shape::value_stride + 8 * (row >> 3) + 16 * (t ^ place >> 1);
      turned = place & 1;
    }
    typename Shape::Tile::Value value;
    if constexpr (Matrix::run == 16) {
      const Bytes16 parts[2] = {*reinterpret_cast<const Bytes16*>(from + 8 * turned),
                                *reinterpret_cast<const Bytes16*>(from + 8 * (turned ^ 1))};
      static_assert(sizeof(parts) == sizeof(value));
      return __builtin_bit_cast(typename Shape::Tile::Value, parts);
    } else {
      const int key = Matrix::first_k();
      return *reinterpret_cast<const typename Shape::Tile::Value*>(from + 8 * ((key >> 3) ^ turned) + (key & 7));
    }
  }
};

/// Adds up the scores of the waves of a row, each of which has a part of the dimensions: floats in shared memory, written
/// before a barrier and read after it. All waves add in the same order, so that they have the same bits.
template <class Shape, class C>
struct FlashExchange {
  static_assert(Shape::parts == 1 || Shape::parts == 2 || Shape::parts == 4);
  static constexpr int pieces = Shape::key_tiles * sizeof(C) / sizeof(Bytes16);  ///< of 16 bytes a lane
  Bytes16* memory;                                                               ///< [part][row wave][piece][lane]

  __device__ Bytes16* of_wave(int part) const {
    return memory + (part * Shape::row_waves + Shape::row_wave()) * (pieces * wave_size) + lane_index();
  }
  __device__ __forceinline__ void give(const C (&scores)[Shape::key_tiles]) const {
    if constexpr (Shape::parts > 1) {
      Bytes16* to = of_wave(Shape::part());
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        const auto parts = __builtin_bit_cast(Parts, scores[t]);
#pragma unroll
        for (int i = 0; i < of_tile; ++i) {
          to[(t * of_tile + i) * wave_size] = parts.pieces[i];
        }
      }
    }
  }
  __device__ __forceinline__ void add(C (&scores)[Shape::key_tiles]) const {
#pragma unroll
    for (int t = 0; t < Shape::key_tiles; ++t) {
      if constexpr (Shape::parts > 1) {
        scores[t] += read(Shape::part() ^ 1, t);
      }
      if constexpr (Shape::parts > 2) {
        scores[t] += read(Shape::part() ^ 2, t) + read(Shape::part() ^ 3, t);
      }
    }
  }

 private:
  static constexpr int of_tile = sizeof(C) / sizeof(Bytes16);
  struct Parts {
    Bytes16 pieces[of_tile];
  };
  __device__ __forceinline__ C read(int part, int t) const {
    const Bytes16* from = of_wave(part) + t * of_tile * wave_size;
    Parts parts;
#pragma unroll
    for (int i = 0; i < of_tile; ++i) {
      parts.pieces[i] = from[i * wave_size];
    }
    return __builtin_bit_cast(C, parts);
  }
};

/// The range of keys and the operands of the loop over the keys.
template <class T>
struct FlashKeys {
  const T* k;  ///< of the KV head
  const T* v;
  int begin;  ///< a multiple of the tile's keys
  int end;
};

/// The loop over the keys. K of the next tile is loaded while this tile is multiplied; V of the next tile from the middle of
/// one tile to the middle of the next. `score_tile(keys, scores)` and `add_values(values, scores)` multiply out of shared
/// memory, `fold(first_key, scores)` turns scores into weights.
template <class Shape, class T, class C, class ScoreTile, class Fold, class AddValues>
__device__ __forceinline__ void walk_keys_ahead(const AttentionArgs& args, int sequence, const FlashKeys<T>& range, T* keys,
                                                T* values, const ScoreTile& score_tile, const Fold& fold,
                                                const AddValues& add_values) {
  if (range.begin >= range.end) {
    return;
  }
  const bool together = FlashTilePlace<Shape>::together(args);
  FlashKeyLoads<Shape, T> key_loads;
  FlashValueLoads<Shape, T> value_loads;
  FlashTilePlace<Shape> place;
  place.look_up(args, sequence, range.begin, range.end);
  place.arrive(args, sequence);
  key_loads.load(args, sequence, range.k, place, range.end, together);
  value_loads.load(args, sequence, range.v, place, range.end, together);
  place.look_up(args, sequence, range.begin + Shape::keys, range.end);
  key_loads.store(keys);
  sync_shared();
#pragma unroll 1
  for (int first_key = range.begin; first_key < range.end; first_key += Shape::keys) {
    const bool more = first_key + Shape::keys < range.end;
    if (more) {
      place.arrive(args, sequence);
      key_loads.load(args, sequence, range.k, place, range.end, together);
    }
    C scores[Shape::key_tiles];
    score_tile(keys, scores);
    value_loads.store(values);
    sync_shared();
    if (more) {
      value_loads.load(args, sequence, range.v, place, range.end, together);
      place.look_up(args, sequence, first_key + 2 * Shape::keys, range.end);
    }
    fold(first_key, scores);
    add_values(values, scores);
    if (more) {
      key_loads.store(keys);
    }
    sync_shared();
  }
}

}  // namespace rocmforge::gpu
