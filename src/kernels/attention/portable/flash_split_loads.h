#pragma once

// K and V of fused attention on CDNA (flash_split.h): loads through registers into shared memory, a tile of 64 keys at a
// time, and the layout there.
//
// Shared memory holds K as [key][block of 8 dimensions] and V as [dimension][block of 8 keys] without padding, so that two
// work-groups fit on a CU. The order of the blocks of a row depends on the row, which avoids bank conflicts between
// neighbouring lanes.

#include "kernels/attention/portable/flash_ahead.h"

namespace rocmforge::gpu {

/// The same number, hidden from the compiler: values derived from it are computed where they are used, and do not occupy
/// registers throughout the loop.
__device__ inline int forgotten(int value) {
  asm volatile("" : "+v"(value));
  return value;
}

/// The kernel's only argument, reloaded: values that were read from it before this place need no registers meanwhile.
__device__ inline const AttentionArgs& arguments_again() {
  auto* from = (const __attribute__((address_space(4))) AttentionArgs*)__builtin_amdgcn_kernarg_segment_ptr();
  asm volatile("" : "+s"(from));
  return *(const AttentionArgs*)from;
}

/// `row_dims_`: the dimensions of a key that shared memory has room for, where these are more than its own.
template <class T, int head_dim_, int row_dims_ = head_dim_>
struct FlashSplitShape {
  static constexpr bool split = true;
  static constexpr int head_dim = head_dim_;
  static constexpr int row_dims = row_dims_;
  static constexpr int threads = 4 * wave_size;
  static constexpr int rows = 64;
  static constexpr int keys = 64;
  static constexpr int row_tiles = 2;  ///< of a wave
  static constexpr int key_tiles = 2;
  static constexpr int dim_tiles = head_dim / 16;
  static constexpr int chunks = row_dims / 8;
  static constexpr int key_elems = keys * row_dims;
  static constexpr int shared_elems = 2 * key_elems;
  /// Waves on a SIMD, one of each work-group: as many work-groups as shared memory has room for.
  static constexpr int simd_waves = 65536 / (shared_elems * 2);
  static_assert(chunks % 8 == 0 && shared_elems * 2 <= 65536);

  __device__ static int half() { return wave_index() >> 1; }  ///< of a tile's keys
  __device__ static int lane_row() { return lane_index() & 15; }
  __device__ static int lane_part() { return lane_index() >> 4; }
  /// Row of the group's 64.
  __device__ static int row(int r) { return 32 * (wave_index() & 1) + 16 * r + lane_row(); }
  /// Key, of the tile's 64, of element i of a lane's scores of tile t: a lane has eight neighbouring keys, which it reads of
  /// V at once.
  __device__ static int first_key() { return 32 * half() + 8 * lane_part(); }
  static constexpr __device__ int step(int t, int i) { return 4 * t + i; }

  /// Place of dimensions [8 block, 8 block + 8) of a key (or query row) in shared memory. Eight neighbouring lanes read one
  /// block of keys that differ in bits 0, 1 and 3.
  __device__ static int key_place(int key, int block) { return key * row_dims + 8 * (block ^ ((key & 3) | (key >> 1 & 4))); }
  /// Place of keys [8 block, 8 block + 8) of a dimension. Eight neighbouring lanes read one block of neighbouring dimensions
  /// and write blocks of dimensions that are eight apart.
  __device__ static int value_place(int dim, int block) { return dim * keys + 8 * (block ^ ((dim ^ dim >> 3) & 7)); }
};

/// Rows of keys, as kv_row, for a whole wave. A look-up is waited for only when its row is used. It is a vector load like
/// those of K and V: with a load by the scalar unit in flight, a wave would wait for both wherever it waits for shared
/// memory.
class FlashSplitTable {
 public:
  __device__ FlashSplitTable(const KvAddress& kv, int sequence, int end)
      : dense_(kv.block_tables == nullptr),
        sequence_(sequence),
        last_(end - 1),
        shift_(dense_ ? 31 : kv.block_shift),
        stride_(dense_ ? kv.sequence_stride : kv.block_stride),
        token_stride_(kv.token_stride) {
    // Tensors have no table: any memory will do.
    const void* table = dense_ ? kv.k : kv.block_tables + std::int64_t{sequence} * kv.max_blocks;
    table_ = (Table)(table);
  }
  struct Found {
    std::int32_t block;
    int key;
  };
  /// Keys after the last one are found at the place of the last one.
  __device__ Found look_up(int key) const {
    key = min(key, last_);
    const auto offset = static_cast<std::uint32_t>(forgotten(4 * (key >> shift_)));
    return {*(const __attribute__((address_space(1))) std::int32_t*)(table_ + offset), key};
  }
  /// Elements from the start of K or V.
  __device__ std::int64_t row(const Found& found) const {
    int looked_up = __builtin_amdgcn_readfirstlane(found.block);
    // For tensors too: otherwise reusing the register would wait for its load, and with it for all loads.
    asm volatile("" : "+s"(looked_up));
    const std::int64_t block = dense_ ? sequence_ : looked_up;
    return block * stride_ + (found.key & ((1u << shift_) - 1)) * token_stride_;
  }

 private:
  using Table = const __attribute__((address_space(1))) char*;
  bool dense_;
  int sequence_;
  int last_;
  int shift_;
  std::int64_t stride_;
  std::int64_t token_stride_;
  Table table_;
};

/// An address that is the same for the whole wave, in scalar registers, advanced step by step.
class FlashSplitReader {
 public:
  __device__ explicit FlashSplitReader(const void* from) : at_((Bytes)from) {}
  /// Sixteen bytes, `offset` bytes behind the address.
  __device__ Bytes16 read(std::uint32_t offset) {
    asm("" : "+s"(at_));  // else the compiler would add the lane's offset first, and each step to every lane's address
    return {*(const __attribute__((address_space(1))) Bytes16::Words*)(at_ + offset)};
  }
  __device__ void advance(std::int64_t bytes) { at_ += bytes; }

 private:
  using Bytes = const __attribute__((address_space(1))) char*;
  Bytes at_;
};

/// What a thread takes of a tile of K: eight dimensions of each 16th key (head_dim 128).
template <class Shape, class T>
struct FlashSplitKeys {
  static constexpr int count = Shape::keys * Shape::chunks / Shape::threads;
  static constexpr int apart = Shape::threads / Shape::chunks;
  static_assert(Shape::threads % Shape::chunks == 0 && apart * count == Shape::keys);
  Bytes16 values[count];

  __device__ static int key() { return thread_index() / Shape::chunks; }
  __device__ static int chunk() { return thread_index() % Shape::chunks; }

  __device__ __forceinline__ void load(const AttentionArgs& args, int sequence, const T* k, std::int64_t row, int at,
                                       int end, bool together) {
    if (together && at + Shape::keys <= end) {
      const int own = forgotten(2 * (key() * static_cast<int>(args.kv.token_stride) + 8 * chunk()));
      FlashSplitReader reader{k + row};
#pragma unroll
      for (int i = 0; i < count; ++i) {
        values[i] = reader.read(static_cast<std::uint32_t>(own));
        reader.advance(2 * apart * args.kv.token_stride);
      }
      return;
    }
    Bytes16 found[count];
    const int thread = forgotten(thread_index());
    const KvAddress& kv = arguments_again().kv;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int key = min(at + thread / Shape::chunks + i * apart, end - 1);
      found[i] = *reinterpret_cast<const Bytes16*>(k + kv_row(kv, sequence, key) + thread % Shape::chunks * 8);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      settle(found[i].words);
      values[i] = found[i];
    }
  }
  __device__ __forceinline__ void store(T* to) const {
    T* own = to + Shape::key_place(key(), chunk());
#pragma unroll
    for (int i = 0; i < count; ++i) {
      static_assert(apart % 16 == 0 || Shape::head_dim > 128);
      T* at = apart % 16 == 0 ? own + i * apart * Shape::head_dim : to + Shape::key_place(key() + i * apart, chunk());
      *reinterpret_cast<Bytes16*>(at) = values[i];
    }
  }
};

/// What a thread takes of a tile of V: eight dimensions of four neighbouring keys, `count` times.
template <class Shape, class T>
struct FlashSplitValues {
  static constexpr int count = Shape::keys / 4 * Shape::chunks / Shape::threads;
  static_assert(count * Shape::threads == Shape::keys / 4 * Shape::chunks);
  Bytes16 values[count][4];

  __device__ static int chunk(int thread, int i) { return thread % 8 + (thread / 16 + 16 * i) % (Shape::chunks / 8) * 8; }
  __device__ static int key(int thread, int i) {
    return 8 * ((thread / 16 + 16 * i) / (Shape::chunks / 8)) + 4 * (thread >> 3 & 1);
  }

  __device__ __forceinline__ void load(const AttentionArgs& args, int sequence, const T* v, std::int64_t row, int at,
                                       int end, bool together) {
    if (together && at + Shape::keys <= end) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const int thread = thread_index();
        const int own = forgotten(2 * (key(thread, i) * static_cast<int>(args.kv.token_stride) + 8 * chunk(thread, i)));
        FlashSplitReader reader{v + row};
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          values[i][r] = reader.read(static_cast<std::uint32_t>(own));
          reader.advance(2 * args.kv.token_stride);
        }
      }
      return;
    }
    Bytes16 found[count][4];
    const int thread = forgotten(thread_index());
    const KvAddress& kv = arguments_again().kv;
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int of_key = min(at + key(thread, i) + r, end - 1);
        found[i][r] = *reinterpret_cast<const Bytes16*>(v + kv_row(kv, sequence, of_key) + 8 * chunk(thread, i));
      }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        settle(found[i][r].words);
        values[i][r] = found[i][r];
      }
    }
  }
  __device__ __forceinline__ void store(T* to) const {
    using Words = std::uint32_t __attribute__((ext_vector_type(2)));
    constexpr std::uint32_t lower = 0x05040100u;
    constexpr std::uint32_t upper = 0x07060302u;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      // That of dimension j of the eight differs in three bits alone.
      const int first = forgotten(
          2 * (Shape::value_place(8 * chunk(thread_index(), i), key(thread_index(), i) / 8) + key(thread_index(), i) % 8));
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const std::uint32_t which = j % 2 == 0 ? lower : upper;
        const Words words{__builtin_amdgcn_perm(values[i][1].words[j / 2], values[i][0].words[j / 2], which),
                          __builtin_amdgcn_perm(values[i][3].words[j / 2], values[i][2].words[j / 2], which)};
        *reinterpret_cast<Words*>(reinterpret_cast<char*>(to + j * Shape::keys) + (first ^ 16 * j)) = words;
      }
    }
  }
};

}  // namespace rocmforge::gpu
