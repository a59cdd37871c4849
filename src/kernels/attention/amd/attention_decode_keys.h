#pragma once

// The arguments of decode attention, the part of a work-group, and how its lanes read keys. See attention_decode.h.

#include "kernels/attention/amd/attention_decode_args.h"
#include "kernels/attention/portable/paged.h"
#include "kernels/tile/amd/tile.h"
#include "kernels/tile/matmul_bytes.h"

namespace rocmforge::amd {

template <int heads_, int dims_>
struct DecodeShape {
  static constexpr int heads = heads_;
  static constexpr int dims = dims_;
  static constexpr int key_lanes = dims / 8;
  static constexpr int slots = gpu::wave_size / key_lanes;  ///< keys that a wave reads at once
  static constexpr int threads = decode_threads(heads, dims, gpu::wave_size);
  static constexpr int waves = threads / gpu::wave_size;
  static constexpr int step_keys = waves * slots;
  /// Keys of a lane that are in flight together. Registers allow for four, or, with eight heads, for two where two waves of
  /// a SIMD share 512 registers.
  static constexpr int most_steps = heads == 8 && gpu::wave_size == 64 ? 2 : 4;
  static constexpr int steps = decode_round_keys / step_keys < most_steps ? decode_round_keys / step_keys : most_steps;
  static constexpr int values = heads * 8;           ///< of a lane's sums
  static constexpr int own_values = values / slots;  ///< of these, once the wave's slots are added up
  static_assert(decode_round_keys % (step_keys * steps) == 0 && values % slots == 0);
};

/// Memory that the host wrote before the kernel started and that stays constant: scalar reads.
template <class T>
using Constant = const __attribute__((address_space(4))) T*;
__device__ __forceinline__ int read_constant(const std::int32_t* from, int index) {
  return ((Constant<std::int32_t>)from)[index];
}

/// The arguments, read at once and kept: nothing is read where it is first needed, or again in a loop.
template <class T, class Shape>
__device__ __forceinline__ DecodeArgs read_arguments(const DecodeArgs& from) {
  DecodeArgs args = from;
  gpu::AttentionArgs& call = args.call;
  gpu::KvAddress& kv = call.kv;
  asm volatile(""
               : "+s"(call.q), "+s"(call.out), "+s"(kv.k), "+s"(kv.v), "+s"(kv.block_tables), "+s"(kv.block_stride),
                 "+s"(kv.token_stride), "+s"(kv.head_stride), "+s"(kv.max_blocks), "+s"(kv.block_shift),
                 "+s"(call.query_offsets), "+s"(call.kv_lengths), "+s"(call.q_stride), "+s"(call.q_heads),
                 "+s"(call.head_dim));
  asm volatile(""
               : "+s"(call.sinks), "+s"(call.mask), "+s"(call.io_dtype), "+s"(call.rows), "+s"(call.causal),
                 "+s"(call.window), "+s"(call.scale_log2), "+s"(call.soft_cap_scale), "+s"(call.soft_cap_log2),
                 "+s"(call.first_item), "+s"(call.group_tiles), "+s"(args.group), "+s"(args.pieces), "+s"(args.tile_factor),
                 "+s"(args.pieces_factor), "+s"(args.append.q));
  // These are used beside values that differ between lanes, so they go to vector registers: scalar ones are scarcer. Not
  // where eight heads of floats take the vector registers.
  asm volatile("" : "+v"(call.out));
  if constexpr (Shape::heads < 8 || sizeof(T) == 1) {
    asm volatile(""
                 : "+v"(call.sinks), "+v"(call.mask), "+v"(call.scale_log2), "+v"(call.soft_cap_scale),
                   "+v"(call.soft_cap_log2));
  }
  return args;
}

/// A work-group's part of the call.
struct DecodePlace {
  int sequence;
  int row;  ///< among the tokens
  int kv_head;
  int first_head;  ///< query head
  int heads;
  int begin;  ///< keys that the row sees
  int end;
  int first;  ///< key of the piece, a multiple of decode_round_keys
  int last;   ///< the key after the piece
  int piece;
  int rounds;  ///< of the row, at least 1; 0 where there is nothing to do
  int each;    ///< rounds of a piece

  [[nodiscard]] __device__ __forceinline__ int pieces() const { return (rounds + each - 1) / each; }
};

template <class Shape>
__device__ __forceinline__ DecodePlace decode_place(const DecodeArgs& all) {
  const gpu::AttentionArgs& args = all.call;
  DecodePlace place{};
  const int index = static_cast<int>(blockIdx.z);
  place.sequence = args.first_item + index;
  const int y = static_cast<int>(blockIdx.y);
  place.kv_head = static_cast<int>(static_cast<unsigned>(y) * all.tile_factor >> 16);
  const int tile = y - place.kv_head * args.group_tiles;
  place.first_head = place.kv_head * all.group + tile * Shape::heads;
  place.heads = min(Shape::heads, all.group - tile * Shape::heads);
  place.row = read_constant(args.query_offsets, place.sequence);
  int next_row = read_constant(args.query_offsets, place.sequence + 1);
  int kv_len = read_constant(args.kv_lengths, place.sequence);
  asm volatile("" : "+s"(place.row), "+s"(next_row), "+s"(kv_len));  // one wait for all of them
  const int q_len = next_row - place.row;
  if (q_len == 0 || (args.rows != 0 && (args.rows == 1) != (q_len == 1))) {
    return place;
  }
  const gpu::KeyRange visible = gpu::keys_in_window(args, kv_len - q_len, kv_len);
  place.begin = visible.begin;
  place.end = visible.end;
  const int first_round = visible.begin / decode_round_keys;
  // A row without keys still writes zeros.
  place.rounds = max((visible.end + decode_round_keys - 1) / decode_round_keys - first_round, 1);
  place.each = divide_by_pieces(place.rounds + all.pieces - 1, all.pieces_factor);
  place.piece = static_cast<int>(blockIdx.x);
  place.first = (first_round + place.piece * place.each) * decode_round_keys;
  place.last = min(place.first + place.each * decode_round_keys, place.end);
  return place;
}

/// value + the value of lane (own ^ mask). The exchange is an instruction of its own with separate source and result,
/// because an emulator that computes lane after lane would read what it has just written.
template <int mask>
__device__ __forceinline__ float add_other(float value) {
  float other = exchange<mask>(value);
  asm("" : "+v"(value), "+v"(other));  // and the sum is not fused with a preceding product, which would differ between lanes
  return value + other;
}

/// The sum over the lanes of a key, in all of them.
template <int lanes>
__device__ __forceinline__ float sum_over(float value) {
  value = add_other<1>(value);
  value = add_other<2>(value);
  value = add_other<7>(value);
  if constexpr (lanes >= 16) {
    value = add_other<15>(value);
  }
  if constexpr (lanes >= 32) {
    value += gpu::shuffle_xor(value, 16);
  }
  return value;
}

/// Eight elements of a lane as loaded, those of q8_0 with the bits of their scale: a conversion at the load would wait for
/// it.
template <class T>
struct LaneEight {
  gpu::Eight<T> eight;

  [[nodiscard]] __device__ __forceinline__ Pair pair(int i) const { return {eight[2 * i], eight[2 * i + 1]}; }
  [[nodiscard]] __device__ __forceinline__ float scale() const { return 1.0f; }
};
template <>
struct LaneEight<gpu::Quant> {
  std::uint32_t quants[2];
  std::uint32_t scale_bits;

  /// Without the scale.
  [[nodiscard]] __device__ __forceinline__ Pair pair(int i) const {
    const std::uint32_t word = quants[i / 2];
    const int first = i % 2 * 2;
    return {static_cast<float>(signed_byte(word, first)), static_cast<float>(signed_byte(word, first + 1))};
  }
  [[nodiscard]] __device__ __forceinline__ float scale() const { return gpu::half_of_word(scale_bits, 0); }
};

/// The places of a lane's keys in one iteration of the loop, the same in K and in V.
template <class Shape>
struct KeyPlaces {
  std::int64_t at[Shape::steps];  ///< bytes from the start of a plane, the same for the wave
  int token[Shape::steps];        ///< positions from there
};

/// Where a piece's keys lie; all lanes that share a key, and all keys that a wave reads at once, are in one block. Behind
/// the piece's last key that one is read again.
template <class T, class Shape>
struct KeyReader {
  const gpu::AttentionArgs& args;
  const DecodePlace& place;
  int dim;   ///< of the lane, or 0 behind the last one
  int wave;  ///< the same for all lanes, as the compiler knows

  /// The first key of the wave in step s of the steps from `base` on.
  __device__ __forceinline__ int first_key(int base, int s) const {
    return base + s * Shape::step_keys + wave * Shape::slots;
  }
  /// The lane's key, within the work-group's piece.
  __device__ __forceinline__ int key(int base, int s) const {
    return min(max(first_key(base, s) + gpu::lane_index() / Shape::key_lanes, place.begin), place.last - 1);
  }
  /// The block of each step: scalar reads, none of which waits for another.
  __device__ __forceinline__ void find(int base, int (&blocks)[Shape::steps]) const {
    if (args.kv.block_tables == nullptr) {
      return;
    }
    const std::int32_t* table = args.kv.block_tables + std::int64_t{place.sequence} * args.kv.max_blocks;
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {  // the wave's keys lie in one block, so that any one's will do
      const int any = min(max(first_key(base, s) + Shape::slots - 1, place.begin), place.last - 1);
      blocks[s] = read_constant(table, any >> args.kv.block_shift);
    }
  }
  [[nodiscard]] __device__ __forceinline__ KeyPlaces<Shape> locate(int base, const int (&blocks)[Shape::steps]) const {
    const gpu::KvAddress& kv = args.kv;
    KeyPlaces<Shape> places;
    const std::int64_t head = place.kv_head * kv.head_stride * static_cast<int>(sizeof(T));
    if (kv.block_tables == nullptr) {
      const std::int64_t sequence = place.sequence * kv.sequence_stride * static_cast<int>(sizeof(T));
#pragma unroll
      for (int s = 0; s < Shape::steps; ++s) {
        const int first = max(min(first_key(base, s), place.last - 1) - (Shape::slots - 1), 0);
        places.at[s] = head + sequence + std::int64_t{first} * row_bytes();
        places.token[s] = key(base, s) - first;
      }
    } else {
      const int within = (1 << kv.block_shift) - 1;
      const auto block_bytes = static_cast<std::uint32_t>(kv.block_stride * static_cast<int>(sizeof(T)));
#pragma unroll
      for (int s = 0; s < Shape::steps; ++s) {
        places.at[s] = head + static_cast<std::int64_t>(std::uint64_t{static_cast<std::uint32_t>(blocks[s])} * block_bytes);
        places.token[s] = key(base, s) & within;
      }
    }
    return places;
  }
  /// Loads from K or V, whose first block is at `plane`.
  __device__ __forceinline__ void load(const void* plane, const KeyPlaces<Shape>& places,
                                       LaneEight<T> (&eights)[Shape::steps]) const {
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      const auto address = uniform(static_cast<const std::uint8_t*>(plane) + places.at[s]);
      load_eight(address, static_cast<unsigned>(places.token[s] * row_bytes() + dim * static_cast<int>(sizeof(T))),
                 eights[s]);
      if constexpr (sizeof(T) == 1) {
        const auto groups = static_cast<unsigned>(args.kv.token_stride) / 32;
        const unsigned scale = (static_cast<unsigned>(places.token[s]) * groups + static_cast<unsigned>(dim) / 32) * 2;
        eights[s].scale_bits = load_at<std::uint16_t>(address + args.kv.quant_bytes, scale, 0);
      }
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ int row_bytes() const {
    return static_cast<int>(args.kv.token_stride * static_cast<int>(sizeof(T)));
  }
  __device__ static __forceinline__ void load_eight(GlobalBytes address, unsigned lane, LaneEight<T>& eight) {
    if constexpr (sizeof(T) == 1) {
      const auto words = load_at<uint2>(address, lane, 0);
      eight.quants[0] = words.x;
      eight.quants[1] = words.y;
    } else {
      eight.eight.parts[0] = load_at<gpu::Bytes16>(address, lane, 0);
    }
  }
};

}  // namespace rocmforge::amd
