#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

/// NEON with the dot product extension: four registers each. See matmul_simd_generic.h for what the functions mean.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr int tile_groups = 1;
constexpr int tile_tokens = 4;
constexpr int plain_tile_groups = 1;
constexpr int plain_tile_tokens = 6;
constexpr bool sums_stay_in_registers = true;
constexpr bool multiplies_bfloats = false;
/// sdot takes signed bytes on both sides: codes below 128 are the same either way.
constexpr bool wide_codes_unsigned = false;

struct Bytes {
  uint8x16_t v[4];
};
struct Ints {
  int32x4_t v[4];
};
struct Floats {
  float32x4_t v[4];
};
struct Quad {
  int8x16_t v;
};

inline Bytes load_bytes(const std::uint8_t* from) {
  return {{vld1q_u8(from), vld1q_u8(from + 16), vld1q_u8(from + 32), vld1q_u8(from + 48)}};
}
inline void store_bytes(std::uint8_t* to, const Bytes& a) {
  for (int i = 0; i < 4; ++i) {
    vst1q_u8(to + 16 * i, a.v[i]);
  }
}

template <int shift, int mask>
inline Bytes extract(Bytes a) {
  for (uint8x16_t& part : a.v) {
    if constexpr (shift > 0) {
      part = vshrq_n_u8(part, shift);
    }
    part = vandq_u8(part, vdupq_n_u8(mask));
  }
  return a;
}
template <int from, int to, int mask>
inline Bytes insert(Bytes a, const Bytes& high) {
  for (int i = 0; i < 4; ++i) {
    uint8x16_t moved = high.v[i];
    if constexpr (from < to) {
      moved = vshlq_n_u8(moved, to - from);
    } else if constexpr (from > to) {
      moved = vshrq_n_u8(moved, from - to);
    }
    a.v[i] = vorrq_u8(a.v[i], vandq_u8(moved, vdupq_n_u8(mask)));
  }
  return a;
}
inline Bytes look_up(const std::uint8_t (&table)[16], Bytes a) {
  const uint8x16_t entries = vld1q_u8(table);
  for (uint8x16_t& part : a.v) {
    part = vqtbl1q_u8(entries, part);
  }
  return a;
}
inline Bytes flip_top_bits(Bytes a) {
  for (uint8x16_t& part : a.v) {
    part = veorq_u8(part, vdupq_n_u8(0x80));
  }
  return a;
}
template <int value>
inline Bytes add_to_bytes(Bytes a) {
  for (uint8x16_t& part : a.v) {
    part = vaddq_u8(part, vdupq_n_u8(static_cast<std::uint8_t>(value)));
  }
  return a;
}

inline Quad load_quad(const std::int8_t* from) {
  std::int32_t four;
  std::memcpy(&four, from, sizeof four);
  return {vreinterpretq_s8_s32(vdupq_n_s32(four))};
}
template <bool signed_codes>
inline Ints dot(Ints sum, const Bytes& codes, Quad x) {
  for (int i = 0; i < 4; ++i) {
    sum.v[i] = vdotq_s32(sum.v[i], vreinterpretq_s8_u8(codes.v[i]), x.v);
  }
  return sum;
}

inline Ints add(Ints a, const Ints& b) {
  for (int i = 0; i < 4; ++i) {
    a.v[i] = vaddq_s32(a.v[i], b.v[i]);
  }
  return a;
}
inline Floats add(Floats a, const Floats& b) {
  for (int i = 0; i < 4; ++i) {
    a.v[i] = vaddq_f32(a.v[i], b.v[i]);
  }
  return a;
}
template <int shift>
inline Ints broadcast_shifted(const std::int32_t* value) {
  const int32x4_t shifted = vshlq_n_s32(vdupq_n_s32(*value), shift);
  return {{shifted, shifted, shifted, shifted}};
}
inline Ints zero_ints() { return {{vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}}; }

inline Floats broadcast(float value) {
  const float32x4_t four = vdupq_n_f32(value);
  return {{four, four, four, four}};
}
inline Floats zero_floats() { return broadcast(0.0f); }
inline Floats load_floats(const void* from) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  Floats result;
  for (int i = 0; i < 4; ++i) {
    result.v[i] = vreinterpretq_f32_u8(vld1q_u8(bytes + 16 * i));
  }
  return result;
}
inline void store_floats(float* to, const Floats& a) {
  for (int i = 0; i < 4; ++i) {
    vst1q_f32(to + 4 * i, a.v[i]);
  }
}
inline Floats to_floats(const Ints& a) {
  return {{vcvtq_f32_s32(a.v[0]), vcvtq_f32_s32(a.v[1]), vcvtq_f32_s32(a.v[2]), vcvtq_f32_s32(a.v[3])}};
}
inline Floats multiply(Floats a, const Floats& b) {
  for (int i = 0; i < 4; ++i) {
    a.v[i] = vmulq_f32(a.v[i], b.v[i]);
  }
  return a;
}
inline Floats multiply_add(const Floats& a, const Floats& b, Floats c) {
  for (int i = 0; i < 4; ++i) {
    c.v[i] = vfmaq_f32(c.v[i], a.v[i], b.v[i]);
  }
  return c;
}
inline Floats negate(Floats a) {
  for (float32x4_t& part : a.v) {
    part = vnegq_f32(part);
  }
  return a;
}
inline float largest_magnitude(const Floats& a, const Floats& b) {
  int32x4_t four = vdupq_n_s32(0);
  for (int i = 0; i < 4; ++i) {
    four = vmaxq_s32(four, vreinterpretq_s32_f32(vabsq_f32(a.v[i])));
    four = vmaxq_s32(four, vreinterpretq_s32_f32(vabsq_f32(b.v[i])));
  }
  return vget_lane_f32(vreinterpret_f32_s32(vdup_n_s32(vmaxvq_s32(four))), 0);
}
inline Ints round_to_ints(const Floats& a) {
  return {{vcvtnq_s32_f32(a.v[0]), vcvtnq_s32_f32(a.v[1]), vcvtnq_s32_f32(a.v[2]), vcvtnq_s32_f32(a.v[3])}};
}
inline std::int32_t sum_of(const Ints& a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3])));
}
inline void store_narrowed(std::int8_t* to, const Ints& a) {
  const int16x8_t low = vcombine_s16(vqmovn_s32(a.v[0]), vqmovn_s32(a.v[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(a.v[2]), vqmovn_s32(a.v[3]));
  vst1q_s8(to, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}

inline Floats load_halves(const void* from) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  Floats result;
  for (int i = 0; i < 4; ++i) {
    result.v[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes + 8 * i)));
  }
  return result;
}
struct ColumnPair {
  Floats first;
  Floats second;
};
inline ColumnPair load_bfloat_pairs(const void* from) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  ColumnPair result;
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t bits = vreinterpretq_u32_u8(vld1q_u8(bytes + 16 * i));
    result.first.v[i] = vreinterpretq_f32_u32(vshlq_n_u32(bits, 16));
    result.second.v[i] = vreinterpretq_f32_u32(vandq_u32(bits, vdupq_n_u32(0xffff0000u)));
  }
  return result;
}
template <class Bits>
void store_bfloats(Bits* to, const Floats& a);
template <class Bits>
Floats multiply_bfloat_pairs(const Floats& sum, const std::uint8_t* pairs, const Bits* x);
/// 16 bytes as 16 unsigned integers.
struct WideBytes {
  uint32x4_t v[4];
};
inline WideBytes widen(uint8x16_t bytes) {
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes));
  const uint16x8_t high = vmovl_u8(vget_high_u8(bytes));
  return {{vmovl_u16(vget_low_u16(low)), vmovl_u16(vget_high_u16(low)), vmovl_u16(vget_low_u16(high)),
           vmovl_u16(vget_high_u16(high))}};
}
inline Floats bytes_to_floats(uint8x16_t bytes) {
  const WideBytes wide = widen(bytes);
  return {{vcvtq_f32_u32(wide.v[0]), vcvtq_f32_u32(wide.v[1]), vcvtq_f32_u32(wide.v[2]), vcvtq_f32_u32(wide.v[3])}};
}
inline Floats load_unsigned_bytes(const std::uint8_t* from) { return bytes_to_floats(vld1q_u8(from)); }
inline Floats load_signed_bytes(const std::uint8_t* from) {
  Floats result = bytes_to_floats(veorq_u8(vld1q_u8(from), vdupq_n_u8(0x80)));
  for (float32x4_t& part : result.v) {
    part = vsubq_f32(part, vdupq_n_f32(128.0f));
  }
  return result;
}
template <int shift>
inline Floats load_nibbles(const std::uint8_t* from) {
  uint8x16_t bytes = vld1q_u8(from);
  if constexpr (shift > 0) {
    bytes = vshrq_n_u8(bytes, shift);
  }
  return bytes_to_floats(vandq_u8(bytes, vdupq_n_u8(15)));
}
inline Floats load_exponents(const std::uint8_t* from) {
  const WideBytes e = widen(vld1q_u8(from));
  Floats result;
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e.v[i], vdupq_n_u32(1)), 23);
    const uint32x4_t denormal = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e.v[i]));
    result.v[i] = vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e.v[i], vdupq_n_u32(2)), denormal, normal));
  }
  return result;
}

inline void prefetch(const void* address) { __builtin_prefetch(address, 0, 3); }

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
