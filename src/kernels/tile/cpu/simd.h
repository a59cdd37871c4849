#pragma once

#include <stdint.h>
#include <string.h>

/// A vector of floats of the native width, for bodies that are compiled once per instruction set. Everything here has
/// internal linkage: a function of one instruction set must never be merged with that of another. The vector types take + -
/// * / and comparisons as operators; `a < b ? x : y` selects by lane. Only simd_*.h and matmul_simd_*.h hold intrinsics.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// Bit patterns in memory, at any alignment.
struct HalfBits {
  uint16_t bits;
};
struct BfloatBits {
  uint16_t bits;
};

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA

#if defined(ROCMFORGE_ISA_avx512)
#include "kernels/tile/cpu/simd_avx512.h"
#elif defined(ROCMFORGE_ISA_avx2) || defined(ROCMFORGE_ISA_avxvnni)
#include "kernels/tile/cpu/simd_avx2.h"
#elif defined(ROCMFORGE_ISA_neon)
#include "kernels/tile/cpu/simd_neon.h"
#else
#include "kernels/tile/cpu/simd_generic.h"
#endif

namespace rocmforge::ROCMFORGE_ISA {
namespace {

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
#endif
#if defined(ROCMFORGE_ISA_neon) || defined(ROCMFORGE_ISA_generic)
/// The sum of the lanes, halves added pairwise: one order for every call.
inline float sum_lanes(Vec value) { return (value[0] + value[2]) + (value[1] + value[3]); }
inline float max_lane(Vec value) {
  const float even = value[0] > value[2] ? value[0] : value[2];
  const float odd = value[1] > value[3] ? value[1] : value[3];
  return even > odd ? even : odd;
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
