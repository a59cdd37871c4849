#pragma once

#include <arm_neon.h>

/// Vectors of NEON. See simd_generic.h for what the functions mean.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

using Vec = float32x4_t;
struct VecPair {
  Vec first;
  Vec second;
};
constexpr int vec_width = 4;
constexpr int max_tile_rows = 8;

inline Vec broadcast(float value) { return vdupq_n_f32(value); }
inline Vec load(const float* from) { return vld1q_f32(from); }
inline Vec load(const HalfBits* from) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(from))));
}
inline Vec load(const BfloatBits* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(from))), 16));
}
inline VecPair load_pairs(const BfloatBits* from) {
  const uint32x4_t bits = vreinterpretq_u32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from)));
  return {vreinterpretq_f32_u32(vshlq_n_u32(bits, 16)), vreinterpretq_f32_u32(vandq_u32(bits, vdupq_n_u32(0xffff0000u)))};
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

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
