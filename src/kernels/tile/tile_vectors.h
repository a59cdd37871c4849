#pragma once

// The tile products of tile.h on AMD's cards without matrix cores: Vega 20, RDNA1, RDNA2. Each lane holds a whole column of
// B and the sums of those rows of the column that belong to the lane's part; the part's rows of A come one after the other
// from its 16 lanes. Half precision uses dot products of pairs where the card has them. Sums are always floats.

#include <cstdint>
#include <utility>

#include "kernels/tile/device_code.h"

namespace rocmforge::gpu {

#if defined(__gfx906__) || defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) ||  \
    defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__) || \
    defined(__gfx10_3_generic__) || defined(__GFX11__)
inline constexpr bool has_half_dot = true;
#else
inline constexpr bool has_half_dot = false;
#endif

template <class T>
struct MatrixTileBase {
  static constexpr int parts = wave_size / 16;
  static constexpr int c_elems = 16 / parts;
  static constexpr int run = 16;
  static constexpr bool is_half = __is_same(T, half);
  using C = float __attribute__((ext_vector_type(c_elems)));
  using Words = std::uint32_t __attribute__((ext_vector_type(8)));  ///< a row of A, a column of B

  __device__ static int part() { return lane_index() >> 4; }
  __device__ static int outer() { return lane_index() & 15; }
  /// Lane i of a part holds the row of its element i.
  __device__ static int a_row() { return parts * (lane_index() & (c_elems - 1)) + part(); }
  __device__ static int first_k() { return 0; }
  __device__ static int c_row(int i) { return parts * i + part(); }
  __device__ static int c_col(int) { return outer(); }

  template <class B>
  __device__ static B transposed(const B& b) {
    auto words = __builtin_bit_cast(Words, b);
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      words[w] = shuffle(words[w], a_row());
    }
    return __builtin_bit_cast(B, words);
  }

  template <class A>
  __device__ __forceinline__ static void multiply(C& c, const A& a, const A& b) {
    auto words = __builtin_bit_cast(Words, a);
    // Otherwise the compiler would keep the rows that every lane has read, in 64 registers, for the next product with the
    // same A until sums are needed.
    asm volatile("" : "+v"(words));
    add_rows(c, words, __builtin_bit_cast(Words, b), std::make_integer_sequence<int, c_elems>());
    asm volatile("" : "+v"(c));
  }

 private:
  template <int... rows>
  __device__ __forceinline__ static void add_rows(C& c, Words a, Words b, std::integer_sequence<int, rows...>) {
    (add_row<rows>(c, a, b), ...);
  }

  template <int row>
  __device__ __forceinline__ static void add_row(C& c, Words a, Words b) {
    float sum = c[row];
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      sum = dot(from_lane<row>(a[w]), b[w], sum);
    }
    c[row] = sum;
  }

  /// The value that lane `lane` of the 16 neighbours holds.
  template <int lane>
  __device__ __forceinline__ static std::uint32_t from_lane(std::uint32_t word) {
#if defined(__GFX9__)
    constexpr int keep_part = 0x10;
    return static_cast<std::uint32_t>(__builtin_amdgcn_ds_swizzle(static_cast<int>(word), lane << 5 | keep_part));
#else
    constexpr int row_share = 0x150;
    return static_cast<std::uint32_t>(__builtin_amdgcn_mov_dpp(static_cast<int>(word), row_share + lane, 0xf, 0xf, true));
#endif
  }

  /// sum + the products of two pairs.
  __device__ __forceinline__ static float dot(std::uint32_t a, std::uint32_t b, float sum) {
    using Pair = _Float16 __attribute__((ext_vector_type(2)));
    if constexpr (is_half && has_half_dot) {
#if defined(__gfx906__) || defined(__GFX10__) || defined(__GFX11__)
      return __builtin_amdgcn_fdot2(__builtin_bit_cast(Pair, a), __builtin_bit_cast(Pair, b), sum, false);
#endif
#if defined(__GFX10__)
    } else if constexpr (is_half) {  // LLVM 19 fails on the same in C++
      asm("v_fma_mix_f32 %0, %1, %2, %0 op_sel_hi:[1,1,0]\n"
          "v_fma_mix_f32 %0, %1, %2, %0 op_sel:[1,1,0] op_sel_hi:[1,1,0]"
          : "+v"(sum)
          : "v"(a), "v"(b));
      return sum;
#endif
    } else {
      static_assert(!is_half);
      sum = __builtin_fmaf(__builtin_bit_cast(float, a << 16), __builtin_bit_cast(float, b << 16), sum);
      return __builtin_fmaf(__builtin_bit_cast(float, a & 0xffff0000u), __builtin_bit_cast(float, b & 0xffff0000u), sum);
    }
  }
};

}  // namespace rocmforge::gpu
