#pragma once

#include <immintrin.h>

/// Vectors of AVX2 with FMA and F16C. See simd_generic.h for what the functions mean.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

using Vec = __m256;
struct VecPair {
  Vec first;
  Vec second;
};
constexpr int vec_width = 8;
constexpr int max_tile_rows = 6;  ///< 12 accumulators of the 16 registers

inline Vec broadcast(float value) { return _mm256_set1_ps(value); }
inline Vec load(const float* from) { return _mm256_loadu_ps(from); }
inline Vec load(const HalfBits* from) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))); }
inline Vec load(const BfloatBits* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline VecPair load_pairs(const BfloatBits* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
}
inline void store(float* to, Vec value) { _mm256_storeu_ps(to, value); }
inline void store(HalfBits* to, Vec value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec maximum(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec minimum(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec nearest(Vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline Vec to_exponent(Vec x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23)); }
inline Vec power_of_two(Vec n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
inline float sum_lanes(Vec value) {
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
inline float max_lane(Vec value) {
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
