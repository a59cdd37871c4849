#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

/// AVX2 with FMA and F16C: two registers each. See matmul_simd_generic.h for what the functions mean.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr int tile_groups = 1;
constexpr int tile_tokens = 4;
constexpr int plain_tile_rows = 3;
constexpr int plain_tile_tokens = 2;
/// maddubs adds two products in 16 bits with saturation: unsigned bytes must stay below 128 (2 * 127 * 127 < 2^15).
constexpr bool wide_codes_unsigned = false;

struct Bytes {
  __m256i v[2];
};
struct Ints {
  __m256i v[2];
};
struct Floats {
  __m256 v[2];
};
struct Quad {
  __m256i v;
};

inline __m256i load_32(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline __m128i load_16(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
inline __m128i load_8(const void* from) { return _mm_loadl_epi64(static_cast<const __m128i*>(from)); }

inline Bytes load_bytes(const std::uint8_t* from) { return {{load_32(from), load_32(from + 32)}}; }
inline void store_bytes(std::uint8_t* to, Bytes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a.v[0]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32), a.v[1]);
}

template <int shift, int mask>
inline Bytes extract(Bytes a) {
  for (__m256i& part : a.v) {
    part = _mm256_and_si256(_mm256_srli_epi16(part, shift), _mm256_set1_epi8(static_cast<char>(mask)));
  }
  return a;
}
template <int from, int to, int mask>
inline Bytes insert(Bytes a, Bytes high) {
  for (int i = 0; i < 2; ++i) {
    const __m256i moved =
        from < to ? _mm256_slli_epi16(high.v[i], to - from) : _mm256_srli_epi16(high.v[i], from > to ? from - to : 0);
    a.v[i] = _mm256_or_si256(a.v[i], _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask))));
  }
  return a;
}
inline Bytes look_up(const std::uint8_t (&table)[16], Bytes a) {
  const __m256i entries = _mm256_broadcastsi128_si256(load_16(table));
  return {{_mm256_shuffle_epi8(entries, a.v[0]), _mm256_shuffle_epi8(entries, a.v[1])}};
}
inline Bytes flip_top_bits(Bytes a) {
  const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
  return {{_mm256_xor_si256(a.v[0], top), _mm256_xor_si256(a.v[1], top)}};
}
template <int value>
inline Bytes add_to_bytes(Bytes a) {
  const __m256i values = _mm256_set1_epi8(static_cast<char>(value));
  return {{_mm256_add_epi8(a.v[0], values), _mm256_add_epi8(a.v[1], values)}};
}

inline Quad load_quad(const std::int8_t* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return {_mm256_set1_epi32(four)};
}
inline __m256i add_quads(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
  const __m256i pairs = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
template <bool signed_codes>
inline Ints dot(Ints sum, Bytes codes, Quad x) {
  for (int i = 0; i < 2; ++i) {
    if constexpr (signed_codes) {
      // |code| times x with the sign of the code; |-128| is 128 as an unsigned byte, which still fits.
      sum.v[i] = add_quads(sum.v[i], _mm256_abs_epi8(codes.v[i]), _mm256_sign_epi8(x.v, codes.v[i]));
    } else {
      sum.v[i] = add_quads(sum.v[i], codes.v[i], x.v);
    }
  }
  return sum;
}

inline Ints add(Ints a, Ints b) { return {{_mm256_add_epi32(a.v[0], b.v[0]), _mm256_add_epi32(a.v[1], b.v[1])}}; }
template <int shift>
inline Ints broadcast_shifted(const std::int32_t* value) {
  const __m256i shifted = _mm256_slli_epi32(_mm256_set1_epi32(*value), shift);
  return {{shifted, shifted}};
}
inline Ints zero_ints() { return {{_mm256_setzero_si256(), _mm256_setzero_si256()}}; }

inline Floats zero_floats() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
inline Floats broadcast(float value) { return {{_mm256_set1_ps(value), _mm256_set1_ps(value)}}; }
inline Floats load_floats(const void* from) {
  return {{_mm256_castsi256_ps(load_32(from)), _mm256_castsi256_ps(load_32(static_cast<const char*>(from) + 32))}};
}
inline void store_floats(float* to, Floats a) {
  _mm256_storeu_ps(to, a.v[0]);
  _mm256_storeu_ps(to + 8, a.v[1]);
}
inline Floats to_floats(Ints a) { return {{_mm256_cvtepi32_ps(a.v[0]), _mm256_cvtepi32_ps(a.v[1])}}; }
inline Floats multiply(Floats a, Floats b) { return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}}; }
inline Floats multiply_add(Floats a, Floats b, Floats c) {
  return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}
inline Floats negate(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {{_mm256_xor_ps(a.v[0], sign), _mm256_xor_ps(a.v[1], sign)}};
}
inline float sum_of(Floats a) {
  const __m256 eight = _mm256_add_ps(a.v[0], a.v[1]);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float largest_magnitude(Floats a, Floats b) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i eight = _mm256_setzero_si256();
  for (int i = 0; i < 2; ++i) {
    eight = _mm256_max_epi32(eight, _mm256_and_si256(_mm256_castps_si256(a.v[i]), magnitude));
    eight = _mm256_max_epi32(eight, _mm256_and_si256(_mm256_castps_si256(b.v[i]), magnitude));
  }
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1))));
}
inline Ints round_to_ints(Floats a) { return {{_mm256_cvtps_epi32(a.v[0]), _mm256_cvtps_epi32(a.v[1])}}; }
inline std::int32_t sum_of(Ints a) {
  const __m256i eight = _mm256_add_epi32(a.v[0], a.v[1]);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
inline void store_narrowed(std::int8_t* to, Ints a) {
  // The packs work inside 128-bit lanes: bring the four pieces back in order.
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.v[0], a.v[1]), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

inline Floats load_halves(const void* from) {
  return {{_mm256_cvtph_ps(load_16(from)), _mm256_cvtph_ps(load_16(static_cast<const char*>(from) + 16))}};
}
inline __m256 bfloats_to_floats(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline Floats load_bfloats(const void* from) {
  return {{bfloats_to_floats(load_16(from)), bfloats_to_floats(load_16(static_cast<const char*>(from) + 16))}};
}
inline Floats load_unsigned_bytes(const std::uint8_t* from) {
  return to_floats({{_mm256_cvtepu8_epi32(load_8(from)), _mm256_cvtepu8_epi32(load_8(from + 8))}});
}
inline Floats load_signed_bytes(const std::uint8_t* from) {
  return to_floats({{_mm256_cvtepi8_epi32(load_8(from)), _mm256_cvtepi8_epi32(load_8(from + 8))}});
}
template <int shift>
inline Floats load_nibbles(const std::uint8_t* from) {
  const __m256i mask = _mm256_set1_epi32(15);
  return to_floats({{_mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu8_epi32(load_8(from)), shift), mask),
                     _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu8_epi32(load_8(from + 8)), shift), mask)}});
}
inline __m256 exponents_to_floats(__m256i e) {
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
  const __m256i denormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
  return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, denormal, small));
}
inline Floats load_exponents(const std::uint8_t* from) {
  return {{exponents_to_floats(_mm256_cvtepu8_epi32(load_8(from))),
           exponents_to_floats(_mm256_cvtepu8_epi32(load_8(from + 8)))}};
}

inline void prefetch(const void* address) { _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0); }

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
