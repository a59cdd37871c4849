#pragma once

/// Vectors of GCC and Clang for any processor.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

typedef float Vec __attribute__((vector_size(16)));
struct VecPair {
  Vec first;
  Vec second;
};
typedef int32_t IntVec __attribute__((vector_size(16)));
constexpr int vec_width = 4;
constexpr int max_tile_rows = 4;

inline Vec broadcast(float value) { return Vec{value, value, value, value}; }
inline Vec load(const float* from) {
  Vec value;
  memcpy(&value, from, sizeof value);
  return value;
}
inline Vec load(const HalfBits* from) {
  uint16_t four[4];
  memcpy(four, from, sizeof four);
  const IntVec bits{four[0], four[1], four[2], four[3]};
  const IntVec magnitude = bits & 0x7fff;
  // 2^112 moves the exponent from the bias of 15 to that of 127, denormals included.
  const IntVec finite = reinterpret_cast<IntVec>(reinterpret_cast<Vec>(magnitude << 13) * broadcast(0x1p112f));
  const IntVec not_finite = 0x7f800000 | (magnitude & 0x3ff) << 13;
  const IntVec unsigned_bits = magnitude >= 0x7c00 ? not_finite : finite;
  return reinterpret_cast<Vec>(unsigned_bits | (bits & 0x8000) << 16);
}
inline Vec load(const BfloatBits* from) {
  uint16_t bits[4];
  memcpy(bits, from, sizeof bits);
  const IntVec wide{bits[0], bits[1], bits[2], bits[3]};
  return reinterpret_cast<Vec>(wide << 16);
}
/// The first, and the second, of each of vec_width pairs.
inline VecPair load_pairs(const BfloatBits* from) {
  IntVec bits;
  memcpy(&bits, from, sizeof bits);
  return {reinterpret_cast<Vec>(bits << 16), reinterpret_cast<Vec>(bits & static_cast<int32_t>(0xffff0000u))};
}
inline void store(float* to, Vec value) { memcpy(to, &value, sizeof value); }
inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }   ///< rounds twice here
inline Vec maximum(Vec a, Vec b) { return a > b ? a : b; }  ///< b when either is NaN
inline Vec minimum(Vec a, Vec b) { return a < b ? a : b; }  ///< b when either is NaN
inline Vec nearest(Vec x) {
  const Vec magic = broadcast(12582912.0f);  // 1.5 * 2^23: adding it leaves no bits for a fraction; |x| < 2^22
  return (x + magic) - magic;
}
/// The lowest bits of x, as an integer, at the place of the exponent.
inline Vec to_exponent(Vec x) { return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(x) << 23); }
/// 2^n for whole n in [-126, 127].
inline Vec power_of_two(Vec n) {
  const IntVec exponent = (__builtin_convertvector(n, IntVec) + 127) << 23;
  return reinterpret_cast<Vec>(exponent);
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
