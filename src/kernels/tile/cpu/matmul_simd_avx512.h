#pragma once

// GCC warns of the undefined vectors in its own AVX-512 header.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>
#include <cstring>

/// AVX-512 with VNNI and VBMI: one register each. See matmul_simd_generic.h for what the functions mean.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr int tile_groups = 2;
constexpr int tile_tokens = 4;
constexpr int plain_tile_groups = 2;
constexpr int plain_tile_tokens = 12;
constexpr bool sums_stay_in_registers = true;
constexpr bool multiplies_bfloats = true;
constexpr bool wide_codes_unsigned = true;

struct Bytes {
  __m512i v;
};
struct Ints {
  __m512i v;
};
struct Floats {
  __m512 v;
};
struct Quad {
  __m512i v;
};

inline Bytes load_bytes(const std::uint8_t* from) { return {_mm512_loadu_si512(from)}; }
inline void store_bytes(std::uint8_t* to, Bytes a) { _mm512_storeu_si512(to, a.v); }

template <int shift, int mask>
inline Bytes extract(Bytes a) {
  if constexpr (shift > 0) {
    a.v = _mm512_srli_epi16(a.v, shift);
  }
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(static_cast<char>(mask)))};
}
template <int from, int to, int mask>
inline Bytes insert(Bytes a, Bytes high) {
  if constexpr (from < to) {
    high.v = _mm512_slli_epi16(high.v, to - from);
  } else if constexpr (from > to) {
    high.v = _mm512_srli_epi16(high.v, from - to);
  }
  constexpr int a_or_b_and_c = 0xf8;
  return {_mm512_ternarylogic_epi32(a.v, high.v, _mm512_set1_epi8(static_cast<char>(mask)), a_or_b_and_c)};
}
inline Bytes look_up(const std::uint8_t (&table)[16], Bytes a) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), a.v)};
}
inline Bytes flip_top_bits(Bytes a) { return {_mm512_xor_si512(a.v, _mm512_set1_epi8(static_cast<char>(0x80)))}; }
template <int value>
inline Bytes add_to_bytes(Bytes a) {
  return {_mm512_add_epi8(a.v, _mm512_set1_epi8(static_cast<char>(value)))};
}

inline Quad load_quad(const std::int8_t* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return {_mm512_set1_epi32(four)};
}
template <bool signed_codes>
inline Ints dot(Ints sum, Bytes codes, Quad x) {
  static_assert(!signed_codes);
  return {_mm512_dpbusd_epi32(sum.v, codes.v, x.v)};
}

inline Ints add(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
template <int shift>
inline Ints broadcast_shifted(const std::int32_t* value) {
  return {_mm512_slli_epi32(_mm512_set1_epi32(*value), shift)};
}
inline Ints zero_ints() { return {_mm512_setzero_si512()}; }

inline Floats zero_floats() { return {_mm512_setzero_ps()}; }
inline Floats broadcast(float value) { return {_mm512_set1_ps(value)}; }
inline Floats load_floats(const void* from) { return {_mm512_loadu_ps(from)}; }
inline void store_floats(float* to, Floats a) { _mm512_storeu_ps(to, a.v); }
inline Floats to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline Floats multiply(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats negate(Floats a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
inline float largest_magnitude(Floats a, Floats b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i bits = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a.v), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(b.v), magnitude));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(bits))));
}
inline Ints round_to_ints(Floats a) { return {_mm512_cvtps_epi32(a.v)}; }
inline std::int32_t sum_of(Ints a) { return _mm512_reduce_add_epi32(a.v); }
inline void store_narrowed(std::int8_t* to, Ints a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(a.v));
}

inline __m128i load_16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
inline Floats load_halves(const void* from) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)))};
}
struct ColumnPair {
  Floats first;
  Floats second;
};
inline ColumnPair load_bfloat_pairs(const void* from) {
  const __m512i bits = _mm512_loadu_si512(from);
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16))},
          {_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))}};
}
inline void store_bfloats(std::uint16_t* to, Floats a) {
  const __m256bh rounded = _mm512_cvtneps_pbh(a.v);
  std::memcpy(to, &rounded, sizeof rounded);
}
inline Floats multiply_bfloat_pairs(Floats sum, const std::uint8_t* pairs, const std::uint16_t* x) {
  std::int32_t two;
  std::memcpy(&two, x, sizeof two);
  const __m512i weights = _mm512_loadu_si512(pairs);
  __m512i values = _mm512_set1_epi32(two);
#if defined(__clang__) && __clang_major__ < 19
  __asm__("" : "+v"(values));  // Clang 16 crashes where it sees that pairs of bf16 are copies of one; 19 does not
#endif
  return {_mm512_dpbf16_ps(sum.v, reinterpret_cast<__m512bh>(weights), reinterpret_cast<__m512bh>(values))};
}
inline Floats load_unsigned_bytes(const std::uint8_t* from) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_16(from)))};
}
inline Floats load_signed_bytes(const std::uint8_t* from) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_16(from)))};
}
template <int shift>
inline Floats load_nibbles(const std::uint8_t* from) {
  const __m512i wide = _mm512_srli_epi32(_mm512_cvtepu8_epi32(load_16(from)), shift);
  return {_mm512_cvtepi32_ps(_mm512_and_si512(wide, _mm512_set1_epi32(15)))};
}
inline Floats load_exponents(const std::uint8_t* from) {
  const __m512i e = _mm512_cvtepu8_epi32(load_16(from));
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
  const __m512i denormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
  const __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
  return {_mm512_castsi512_ps(_mm512_mask_blend_epi32(small, normal, denormal))};
}

inline void prefetch(const void* address) { _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0); }

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
