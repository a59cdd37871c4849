#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of the deliberately undefined operands of its own AVX-512 functions.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/// A vector of floats of the native width, for bodies that are compiled once per instruction set. Everything here has
/// internal linkage: a function of one instruction set must never be merged with that of another. The vector types take + -
/// * / and comparisons as operators; `a < b ? x : y` selects by lane.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// Bit patterns in memory.
struct HalfBits {
  uint16_t bits;
};
struct BfloatBits {
  uint16_t bits;
};

#if defined(ROCMFORGE_ISA_avx512)

using Vec = __m512;
constexpr int vec_width = 16;
constexpr int max_tile_rows = 12;  ///< rows x 2 accumulators, 2 operands and a broadcast fit the 32 registers

inline Vec broadcast(float value) { return _mm512_set1_ps(value); }
inline Vec load(const float* from) { return _mm512_loadu_ps(from); }
inline Vec load(const HalfBits* from) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))); }
inline Vec load(const BfloatBits* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
inline void store(float* to, Vec value) { _mm512_storeu_ps(to, value); }
inline void store(HalfBits* to, Vec value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec maximum(Vec a, Vec b) { return _mm512_max_ps(a, b); }  ///< b when either is NaN
inline Vec minimum(Vec a, Vec b) { return _mm512_min_ps(a, b); }  ///< b when either is NaN
inline Vec nearest(Vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/// The lowest bits of x, as an integer, at the place of the exponent.
inline Vec to_exponent(Vec x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23)); }
/// x * 2^n for whole n in [-252, 254], rounded once.
inline Vec scale_by_power(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }
inline float sum_lanes(Vec value) {
  return _mm512_reduce_add_ps(value);
}  ///< halves added pairwise: one order for every call
inline float max_lane(Vec value) { return _mm512_reduce_max_ps(value); }

#elif defined(ROCMFORGE_ISA_avx2)

using Vec = __m256;
constexpr int vec_width = 8;
constexpr int max_tile_rows = 6;  ///< 12 accumulators of the 16 registers

inline Vec broadcast(float value) { return _mm256_set1_ps(value); }
inline Vec load(const float* from) { return _mm256_loadu_ps(from); }
inline Vec load(const HalfBits* from) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))); }
inline Vec load(const BfloatBits* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
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

#elif defined(ROCMFORGE_ISA_neon)

using Vec = float32x4_t;
constexpr int vec_width = 4;
constexpr int max_tile_rows = 8;

inline Vec broadcast(float value) { return vdupq_n_f32(value); }
inline Vec load(const float* from) { return vld1q_f32(from); }
inline Vec load(const HalfBits* from) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from))));
}
inline Vec load(const BfloatBits* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from)), 16));
}
inline void store(float* to, Vec value) { vst1q_f32(to, value); }
inline void store(HalfBits* to, Vec value) {
  vst1_u16(reinterpret_cast<uint16_t*>(to), vreinterpret_u16_f16(vcvt_f16_f32(value)));
}
inline Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
inline Vec maximum(Vec a, Vec b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline Vec minimum(Vec a, Vec b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline Vec nearest(Vec x) { return vrndnq_f32(x); }
inline Vec to_exponent(Vec x) { return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(x), 23)); }
inline Vec power_of_two(Vec n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23));
}

#else

typedef float Vec __attribute__((vector_size(16)));
typedef int32_t IntVec __attribute__((vector_size(16)));
constexpr int vec_width = 4;
constexpr int max_tile_rows = 4;

inline Vec broadcast(float value) { return Vec{value, value, value, value}; }
inline Vec load(const float* from) {
  Vec value;
  memcpy(&value, from, sizeof value);
  return value;
}
inline float to_float(HalfBits half) {
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000u) << 16;
  const uint32_t magnitude = half.bits & 0x7fffu;
  uint32_t bits = (magnitude << 13) + 0x38000000u;
  if (magnitude >= 0x7c00u) {
    bits = 0x7f800000u | magnitude << 13;
  } else if (magnitude < 0x0400u) {
    const float denormal = static_cast<float>(magnitude) * 0x1p-24f;
    memcpy(&bits, &denormal, sizeof bits);
  }
  bits |= sign;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
inline float to_float(BfloatBits number) {
  const uint32_t bits = static_cast<uint32_t>(number.bits) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
inline Vec load(const HalfBits* from) {
  return Vec{to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])};
}
inline Vec load(const BfloatBits* from) {
  return Vec{to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])};
}
inline void store(float* to, Vec value) { memcpy(to, &value, sizeof value); }
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }  ///< rounds twice here
inline Vec maximum(Vec a, Vec b) { return a > b ? a : b; }
inline Vec minimum(Vec a, Vec b) { return a < b ? a : b; }
inline Vec nearest(Vec x) {
  const Vec magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it leaves no bits for a fraction; |x| < 2^22
  return (x + magic) - magic;
}
inline Vec to_exponent(Vec x) { return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(x) << 23); }
inline Vec power_of_two(Vec n) {
  const IntVec exponent = (__builtin_convertvector(n, IntVec) + 127) << 23;
  return reinterpret_cast<Vec>(exponent);
}

#endif

inline Vec zero_vec() { return broadcast(0.0f); }

/// The first `count` lanes; the others are 0.
inline Vec load_partial(const float* from, int count) {
  float lanes[vec_width] = {};
  memcpy(lanes, from, static_cast<size_t>(count) * sizeof(float));
  return load(lanes);
}
inline void store_partial(float* to, Vec value, int count) {
  float lanes[vec_width];
  store(lanes, value);
  memcpy(to, lanes, static_cast<size_t>(count) * sizeof(float));
}

#if !defined(ROCMFORGE_ISA_avx512)

/// x * 2^n for whole n in [-252, 254], in two factors; only the second product can round.
inline Vec scale_by_power(Vec x, Vec n) {
  const Vec first = nearest(n * broadcast(0.5f));
  return x * power_of_two(first) * power_of_two(n - first);
}

/// The sum of the lanes, halves added pairwise: one order for every call.
inline float sum_lanes(Vec value) {
#if defined(ROCMFORGE_ISA_avx2)
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
#else
  return (value[0] + value[2]) + (value[1] + value[3]);
#endif
}
inline float max_lane(Vec value) {
#if defined(ROCMFORGE_ISA_avx2)
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
#else
  const float even = value[0] > value[2] ? value[0] : value[2];
  const float odd = value[1] > value[3] ? value[1] : value[3];
  return even > odd ? even : odd;
#endif
}

#endif

/// e^r for |r| <= ln 2 / 2: 1 + r + r^2 P(r), P fitted to a relative error of 3e-9.
inline Vec exponential_near_zero(Vec r) {
  Vec p = broadcast(0.0013950461288914084f);
  p = fma(p, r, broadcast(0.008368875831365585f));
  p = fma(p, r, broadcast(0.04166620597243309f));
  p = fma(p, r, broadcast(0.1666651964187622f));
  p = fma(p, r, broadcast(0.5f));
  return fma(p, r * r, r) + broadcast(1.0f);
}

/// x - n ln 2 with ln 2 in two parts; the first has 9 bits, so that n times it is exact.
inline Vec without_powers(Vec x, Vec n) { return fma(n, broadcast(2.12194440e-4f), fma(n, broadcast(-0.693359375f), x)); }

/// e^x over the whole range, within 2 units in the last place, denormal results, 0, infinity and NaN included:
/// x = n ln 2 + r with |r| <= ln 2 / 2.
inline Vec exponential(Vec x) {
  x = minimum(broadcast(89.0f), maximum(broadcast(-104.0f), x));
  const Vec n = nearest(x * broadcast(1.44269504f));
  return scale_by_power(exponential_near_zero(without_powers(x, n)), n);  // n is 128 to -150
}

/// e^x for x <= 0 as precisely, but 0 where it would be denormal: half the work, for softmax. NaN stays.
inline Vec exponential_of_negative(Vec x) {
  x = maximum(broadcast(-88.0f), x);
  const Vec magic = broadcast(12582912.0f + 127.0f);  // 1.5 * 2^23 leaves no bits for a fraction, and n + 127 in the lowest
  const Vec shifted = fma(x, broadcast(1.44269504f), magic);
  return exponential_near_zero(without_powers(x, shifted - magic)) * to_exponent(shifted);
}

/// tanh x: an odd polynomial below 0.625, else from the exponential.
inline Vec hyperbolic_tangent(Vec x) {
  const Vec magnitude = maximum(x, zero_vec() - x);
  const Vec z = x * x;
  Vec p = broadcast(-0.005721630062907934f);
  p = fma(p, z, broadcast(0.02065521851181984f));
  p = fma(p, z, broadcast(-0.05374514311552048f));
  p = fma(p, z, broadcast(0.13331514596939087f));
  p = fma(p, z, broadcast(-0.3333328366279602f));
  const Vec small = fma(p, z * x, x);
  const Vec one = broadcast(1.0f);
  const Vec large = one - broadcast(2.0f) / (exponential(magnitude + magnitude) + one);
  const Vec signed_large = x < zero_vec() ? zero_vec() - large : large;
  return magnitude < broadcast(0.625f) ? small : signed_large;
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
