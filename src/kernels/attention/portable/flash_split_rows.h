#pragma once

// K and V of fused attention on CDNA at head_dim 256, where a SIMD has one wave: nothing else is issued while that wave
// waits to issue a load, so loads stand between matrix instructions, in one piece of code without branches. The instructions
// are the same whether a tile is whole or ends at the last key, and whether its keys lie in one block or in several.
//
// Eight keys at a multiple of eight lie together in all layouts (a block has at least 16). Lanes of a wave hold the starts
// of the eight groups of eight keys of a tile, one in each of eight lanes.

#include "kernels/attention/portable/flash_split_loads.h"

namespace rocmforge::gpu {

/// As FlashSplitTable, for each eight keys of a tile.
class FlashRowTable {
 public:
  __device__ FlashRowTable(const KvAddress& kv, int sequence, int end)
      : table_{kv.block_tables + std::int64_t{sequence} * kv.max_blocks},
        dense_(kv.block_tables == nullptr),
        sequence_(sequence),
        last_(end - 1),
        shift_(dense_ ? 31 : kv.block_shift),
        stride_(dense_ ? kv.sequence_stride : kv.block_stride),
        token_stride_(kv.token_stride) {
    if (dense_) {
      table_ = static_cast<const std::int32_t*>(kv.k);  // tensors have no table: any memory will do
    }
  }
  struct Found {
    std::int32_t block;  ///< of a lane's eight keys
    int at;
  };
  /// Looks up the tile at key `at`, which may lie after the last one.
  __device__ Found look_up(int at) const { return {table_[dense_ ? 0 : lane_key(at) >> shift_], at}; }

  /// Bytes from the start of K or V to each eight keys of a tile; groups after the last key are set to that of the last key.
  struct Rows {
    std::int64_t lane_row;
    int at;
    int last;

    __device__ int first_key(int eight) const { return min(at + 8 * eight, last); }
    __device__ std::int64_t row(int eight) const {
      const auto low = static_cast<int>(lane_row);
      const auto high = static_cast<int>(lane_row >> 32);
      return static_cast<std::int64_t>(__builtin_amdgcn_readlane(high, eight)) << 32 |
             static_cast<std::uint32_t>(__builtin_amdgcn_readlane(low, eight));
    }
    /// Bytes from there to `key` of the eight, or to the last key if that is earlier. `token_bytes` has 24 bits at most.
    __device__ std::uint32_t offset(int eight, int key, std::uint32_t token_bytes) const {
      const auto behind = static_cast<std::uint32_t>(min(key, last - first_key(eight)));
      __builtin_assume(behind < 8);
      return behind * (token_bytes & 0xffffff);
    }
  };
  __device__ Rows rows(const Found& found) const {
    int block = found.block;
    asm volatile("" : "+v"(block));  // as in FlashSplitTable
    const std::int64_t of_block = dense_ ? sequence_ : block;
    const auto key = static_cast<int>(lane_key(found.at) & ((1u << shift_) - 1));
    return {2 * (of_block * stride_ + key * token_stride_), found.at, last_};
  }

 private:
  __device__ int lane_key(int at) const { return min(at + 8 * (lane_index() & 7), last_); }

  const std::int32_t* table_;
  bool dense_;
  int sequence_;
  int last_;
  int shift_;
  std::int64_t stride_;
  std::int64_t token_stride_;
};

/// Sixteen bytes at an address that the wave has in common and an offset of the lane.
__device__ inline Bytes16 read_row(const void* from, std::int64_t row, std::uint32_t offset) {
  using Bytes = const __attribute__((address_space(1))) char*;
  return {*(const __attribute__((address_space(1))) Bytes16::Words*)((Bytes)from + row + offset)};
}

/// Bytes from the start of a key to its eight dimensions `chunk`. Past the last dimensions any address will do: shared
/// memory has room for the result.
template <class Shape>
__device__ inline std::uint32_t split_chunk(int chunk) {
  return static_cast<std::uint32_t>(16 * (Shape::row_dims == Shape::head_dim ? chunk : min(chunk, Shape::head_dim / 8 - 1)));
}

/// What a thread takes of a tile of K: eight dimensions of one key of each eight. An eighth of a tile at a time.
template <class Shape, class T>
struct FlashRowKeys {
  using Split = FlashSplitKeys<Shape, T>;
  static_assert(Split::apart == 8 && Split::count == 8);
  Bytes16 values[8];

  __device__ __forceinline__ void load(const AttentionArgs& args, const T* k, const FlashRowTable::Rows& rows, int i) {
    const auto token_bytes = static_cast<std::uint32_t>(2 * args.kv.token_stride);
    values[i] = read_row(k, rows.row(i), rows.offset(i, Split::key(), token_bytes) + split_chunk<Shape>(Split::chunk()));
  }
  __device__ __forceinline__ void store(T* to, int i) const {
    const int own = Shape::key_place(Split::key(), Split::chunk());  // eight keys on it differs in one bit of the block's
    *reinterpret_cast<Bytes16*>(to + 8 * i * Shape::row_dims + (own ^ 32 * (i & 1))) = values[i];
  }
};

/// The part of a tile of V of one thread: eight dimensions of half of two groups of eight keys, the same two for its wave.
template <class Shape, class T>
struct FlashRowValues {
  using Split = FlashSplitValues<Shape, T>;
  static_assert(Shape::chunks == 32 && Split::count == 2);
  Bytes16 values[2][4];

  __device__ __forceinline__ void load(const AttentionArgs& args, const T* v, const FlashRowTable::Rows& rows, int i) {
    const auto token_bytes = static_cast<std::uint32_t>(2 * args.kv.token_stride);
    const int eight = __builtin_amdgcn_readfirstlane(wave_index()) + 4 * (i / 4);
    const int key = Split::key(thread_index(), 0) % 8 + i % 4;
    values[i / 4][i % 4] = read_row(
        v, rows.row(eight), rows.offset(eight, key, token_bytes) + split_chunk<Shape>(Split::chunk(thread_index(), 0)));
  }
  /// Two of the thread's sixteen pieces.
  __device__ __forceinline__ void store(T* to, int i) const {
    using Words = std::uint32_t __attribute__((ext_vector_type(2)));
    const int thread = thread_index();
    const int own =
        2 * (Shape::value_place(8 * Split::chunk(thread, 0), Split::key(thread, 0) / 8) + Split::key(thread, 0) % 8);
    const auto& of = values[i / 4];
#pragma unroll
    for (int j = 2 * (i % 4); j < 2 * (i % 4) + 2; ++j) {
      const std::uint32_t which = j % 2 == 0 ? 0x05040100u : 0x07060302u;
      const Words words{__builtin_amdgcn_perm(of[1].words[j / 2], of[0].words[j / 2], which),
                        __builtin_amdgcn_perm(of[3].words[j / 2], of[2].words[j / 2], which)};
      *reinterpret_cast<Words*>(reinterpret_cast<char*>(to + j * Shape::keys) + (own ^ 16 * j ^ 64 * (i / 4))) = words;
    }
  }
};

}  // namespace rocmforge::gpu
