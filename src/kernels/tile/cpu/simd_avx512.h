#pragma once

#if !defined(__clang__)
// GCC 12 warns of the deliberately undefined operands of its own AVX-512 functions.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

/// Vectors of AVX-512. See simd_generic.h for what the functions mean.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

using Vec = __m512;
struct VecPair {
  Vec first;
  Vec second;
};
constexpr int vec_width = 16;
constexpr int max_tile_rows = 12;  ///< rows x 2 accumulators, 2 operands and a broadcast fit the 32 registers

inline Vec broadcast(float value) { return _mm512_set1_ps(value); }
inline Vec load(const float* from) { return _mm512_loadu_ps(from); }
inline Vec load(const HalfBits* from) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))); }
inline Vec load(const BfloatBits* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline VecPair load_pairs(const BfloatBits* from) {
  const __m512i bits = _mm512_loadu_si512(from);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}
inline void store(float* to, Vec value) { _mm512_storeu_ps(to, value); }
inline void store(HalfBits* to, Vec value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec maximum(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec minimum(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec nearest(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec to_exponent(Vec x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23)); }
/// Rounded once.
inline Vec scale_by_power(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }
inline float sum_lanes(Vec value) { return _mm512_reduce_add_ps(value); }
inline float max_lane(Vec value) { return _mm512_reduce_max_ps(value); }

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
