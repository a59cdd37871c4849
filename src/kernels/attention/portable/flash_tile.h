#pragma once

// How one wave holds 16 query rows of fused attention: which of scores = Q K^T or its transpose it computes, so that the
// weights become an operand of the second product without leaving the registers.
//
// AMD    scores^T = K Q^T and out^T = V^T weights^T: a lane holds values of one query row, so that maximum, sum and
//        rescaling are a lane's own; values are stored [dim][key] in shared memory.
// NVIDIA scores = Q K^T and out = weights V: a lane holds values of two query rows; values are stored [key][dim].
//
// FlashTile<T>:
//   row_slots        query rows a lane holds values of; row(slot) is the row, slot(i) the slot of element i of a product
//   lane_offset() + step(i)  key (of scores), dimension (of out) of element i
//   reduce<Op>(x)    over the lanes that share a row
//   scores(c, q, k)  c += the products of 16 rows and 16 keys
//   weights(c)       probabilities as operand
//   values(c, w, v)  c += weights of 16 keys times values of 16 dimensions

#include "kernels/attention/portable/attention.h"
#include "kernels/tile/tile.h"

// CDNA's waves of a group share rows and keys (flash_split.h).
#if ROCMFORGE_DEVICE_AMD && defined(__GFX9__) && ROCMFORGE_MATRIX_CORES
#define ROCMFORGE_FLASH_SPLIT 1
#else
#define ROCMFORGE_FLASH_SPLIT 0
#endif

namespace rocmforge::gpu {

#if ROCMFORGE_DEVICE_AMD

// A SIMD of the others has 1536 registers of 32 lanes, these have 1024 (LLVM's FeatureISAVersion11_0_2 and others).
#if defined(__gfx1102__) || defined(__gfx1103__) || defined(__gfx1150__) || defined(__gfx1152__) || defined(__gfx1153__) || \
    defined(__gfx11_generic__)
inline constexpr bool has_many_registers = false;
#else
inline constexpr bool has_many_registers = true;
#endif

template <class T>
struct FlashTile {
  using Tile = MatrixTile<T>;
  using C = typename Tile::C;
  using Query = typename Tile::B;
  using Key = typename Tile::A;
  using Weights = typename Tile::B;
  using Value = typename Tile::A;
  static constexpr int c_elems = Tile::c_elems;
  static constexpr int row_slots = 1;
  static constexpr bool values_by_dim = true;
  static constexpr int operand_registers = Tile::run / 2;
  static constexpr int most_registers = ROCMFORGE_MATRIX_CORES ? 192 : 80;  ///< for queries and sums
  static constexpr int most_dims_of_64_keys = ROCMFORGE_MATRIX_CORES ? 128 : 96;
  static constexpr int copies_at_once = 2;  ///< each takes registers until its data have arrived
  /// K and V travel a tile ahead (flash_ahead.h).
  static constexpr bool loads_ahead = ROCMFORGE_MATRIX_CORES;
  static constexpr int simd_waves = wave_size == 64 ? 2 : 4 + 2 * has_many_registers;
  static constexpr int simd_lds_bytes =
      wave_size == 64 ? 65536 : 131072;  ///< of the SIMDs that a group's waves are spread over
  static constexpr int keys_ahead(int head_dim) { return head_dim <= 64 ? 64 : head_dim <= 256 ? 32 : 16; }
  /// Tiles of dimensions whose operands a lane reads with one load of 16 bytes. The order of dimensions along k is the same
  /// for queries and keys.
  static constexpr int most_dims_at_once = Tile::run == 4 ? 2 : 1;
  /// Padding of a row of values [dim][key], and neighbouring dimensions whose blocks of 8 keys lie in the same places
  /// (flash_ahead.h): a wave reads 16 rows of 8 bytes at once, or 8 rows of 16.
  static constexpr int value_padding = Tile::run == 4 ? 4 : 8;
  static constexpr int alike_dims = Tile::run == 4 ? 16 : 8;
  /// Whether the lanes of a row exchange their maxima in every tile of keys, not only where one grew too much: RDNA3.
  static constexpr bool maxima_of_each_tile = Tile::run == 16;

  __device__ static int row(int) { return lane_index() & 15; }
  static constexpr __device__ int slot(int) { return 0; }
  __device__ static int lane_offset() { return Tile::c_row(0); }
  static constexpr __device__ int step(int i) { return Tile::run / c_elems * i; }

  template <class Operation>
  __device__ static float reduce(float value) {
#pragma unroll
    for (int mask = 16; mask < wave_size; mask *= 2) {
      value = Operation::combine(value, shuffle_xor(value, mask));
    }
    return value;
  }

  __device__ static Query load_query(const T* from, int stride) { return Tile::load_b_shared(from, stride); }
  __device__ static Key load_key(const T* from, int stride) { return Tile::load_a_shared(from, stride); }
  /// Operands of `count` tiles of dimensions beside each other, of queries or keys.
  template <int count>
  __device__ static void load_dims(const T* from, int stride, Key* operands) {
    static_assert(count <= most_dims_at_once && __is_same(Key, Query));
    if constexpr (count == 1) {
      operands[0] = load_key(from, stride);
    } else {
      struct Both {
        Key operands[count];
      };
      const T* at = from + Tile::a_row() * stride + count * Tile::first_k();
      const auto both = __builtin_bit_cast(Both, *reinterpret_cast<const Bytes16*>(at));
#pragma unroll
      for (int i = 0; i < count; ++i) {
        operands[i] = both.operands[i];
      }
    }
  }
  /// From values [dim][key], `stride` keys.
  __device__ static Value load_value(const T* from, int stride) { return Tile::load_a_shared(from, stride); }
  __device__ static void scores(C& c, const Query& query, const Key& key) { Tile::multiply(c, key, query); }
  __device__ static void values(C& c, const Weights& weights, const Value& value) { Tile::multiply(c, value, weights); }

  /// A probability rounded to nearest even. bfloat16 without a look at NaN: then the row's sum is NaN already.
  __device__ static std::uint16_t weight_bits(float weight) {
    if constexpr (__is_same(T, half)) {
      return from_float<half>(weight).bits;
    } else {
      const auto bits = __builtin_bit_cast(std::uint32_t, weight);
      return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
  }

  __device__ static Weights weights(const C& c) {
    using Element = typename Tile::Element;
    Weights result;
    if constexpr (Tile::run == c_elems) {  // the keys that a lane holds as a product are those it needs as an operand
#pragma unroll
      for (int i = 0; i < c_elems; ++i) {
        result[i] = __builtin_bit_cast(Element, weight_bits(c[i]));
      }
    } else if constexpr (Tile::run == 2 * c_elems) {  // from both halves of the wave, which hold even and odd keys
      const bool odd = lane_index() >= 16;
#pragma unroll
      for (int i = 0; i < c_elems; i += 2) {
        const std::uint32_t own = std::uint32_t{weight_bits(c[i])} | std::uint32_t{weight_bits(c[i + 1])} << 16;
        const std::uint32_t other = shuffle_xor(own, 16);
        const std::uint32_t even_keys = odd ? other : own;
        const std::uint32_t odd_keys = odd ? own : other;
        result[2 * i] = __builtin_bit_cast(Element, static_cast<std::uint16_t>(even_keys));
        result[2 * i + 1] = __builtin_bit_cast(Element, static_cast<std::uint16_t>(odd_keys));
        result[2 * i + 2] = __builtin_bit_cast(Element, static_cast<std::uint16_t>(even_keys >> 16));
        result[2 * i + 3] = __builtin_bit_cast(Element, static_cast<std::uint16_t>(odd_keys >> 16));
      }
    } else {  // from all parts of the wave, which hold keys in turn
      constexpr int parts = Tile::run / c_elems;
#pragma unroll
      for (int i = 0; i < c_elems; i += 2) {
        const std::uint32_t own = std::uint32_t{weight_bits(c[i])} | std::uint32_t{weight_bits(c[i + 1])} << 16;
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          const std::uint32_t keys = shuffle(own, 16 * part + (lane_index() & 15));
          result[parts * i + part] = __builtin_bit_cast(Element, static_cast<std::uint16_t>(keys));
          result[parts * (i + 1) + part] = __builtin_bit_cast(Element, static_cast<std::uint16_t>(keys >> 16));
        }
      }
    }
    return result;
  }
};

/// 16 bytes from global to shared memory, zeros when `present` is false; visible after wait_copies and a barrier.
__device__ inline void copy_async(void* to, const void* from, bool present) {
  Bytes16 value{};
  if (present) {
    value = *static_cast<const Bytes16*>(from);
  }
  *static_cast<Bytes16*>(to) = value;
}
__device__ inline void commit_copies() {}
/// Waits until at most `pending` of the committed groups of copies are in flight.
template <int pending>
__device__ inline void wait_copies() {}

/// value > 0 for a number that is not NaN, by the scalar ALU, which before RDNA4 compares only integers.
__device__ inline bool is_positive(float value) { return __builtin_bit_cast(int, value) > 0; }

/// Whether `value` holds for any lane; the result is uniform over the wave.
__device__ inline bool any_of_wave(bool value) {
  if constexpr (wave_size == 64) {
    return __builtin_amdgcn_ballot_w64(value) != 0;
  } else {
    return __builtin_amdgcn_ballot_w32(value) != 0;
  }
}

/// Forces the product to be computed at this point. The compiler would move it past barriers to where it is used, and keep
/// all its operands in registers until then.
template <class C>
__device__ inline void settle(C& c) {
  asm volatile("" : "+v"(c));
}

#else

template <class T>
struct FlashTile {
  using Tile = MatrixTile<T>;
  using C = typename Tile::C;
  using Query = typename Tile::A;
  using Key = typename Tile::B;
  using Weights = typename Tile::A;
  using Value = typename Tile::B;
  static constexpr int c_elems = 8;
  static constexpr int row_slots = 2;
  static constexpr bool values_by_dim = false;
  static constexpr int operand_registers = 4;
  static constexpr int most_registers = 192;
  static constexpr int most_dims_of_64_keys = 128;
  static constexpr int copies_at_once = 16;  ///< they do not pass through registers
  static constexpr bool loads_ahead = false;
  static constexpr int simd_waves = 1;
  static constexpr int simd_lds_bytes = 0;
  static constexpr int keys_ahead(int) { return 0; }
  static constexpr int most_dims_at_once = 1;
  static constexpr int value_padding = 8;
  static constexpr int alike_dims = 8;

  __device__ static int row(int slot) { return (lane_index() >> 2) + 8 * slot; }
  static constexpr __device__ int slot(int i) { return (i >> 1) & 1; }
  __device__ static int lane_offset() { return Tile::c_col(0); }
  static constexpr __device__ int step(int i) { return 8 * (i >> 2) + (i & 1); }

  template <class Operation>
  __device__ static float reduce(float value) {
    value = Operation::combine(value, shuffle_xor(value, 1));
    return Operation::combine(value, shuffle_xor(value, 2));
  }

  __device__ static Query load_query(const T* from, int stride) { return Tile::load_a_shared(from, stride); }
  __device__ static Key load_key(const T* from, int stride) { return Tile::load_b_shared(from, stride); }
  /// From values [key][dim], `stride` dimensions.
  __device__ static Value load_value(const T* from, int stride) { return Tile::load_b_k_shared(from, stride); }
  __device__ static void scores(C& c, const Query& query, const Key& key) { Tile::multiply(c, query, key); }
  __device__ static void values(C& c, const Weights& weights, const Value& value) { Tile::multiply(c, weights, value); }

  __device__ static Weights weights(const C& c) {
    Weights result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result.words[i] = pack(c[2 * i], c[2 * i + 1]);
    }
    return result;
  }

 private:
  __device__ static std::uint32_t pack(float low, float high) {
    std::uint32_t word;
    if constexpr (__is_same(T, half)) {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    }
    return word;
  }
};

/// 16 bytes from global to shared memory, zeros when `present` is false; visible after wait_copies and a barrier.
__device__ inline void copy_async(void* to, const void* from, bool present) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(present ? 16 : 0) : "memory");
}
__device__ inline void commit_copies() {
  shake();
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most `pending` of the committed groups of copies are in flight.
template <int pending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
  shake();
}

/// Nothing to do: the product is computed at this point anyway.
template <class C>
__device__ inline void settle(C&) {}

#endif

}  // namespace rocmforge::gpu
