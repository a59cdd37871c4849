#pragma once

// Pairs of 16-bit numbers in a word, and arithmetic by single instructions. Semantics: NVIDIA PTX ISA manual.

#include <cuda_runtime.h>

#include <cstdint>

#include "base/half.h"

namespace rocmforge::hopper {

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Two floats as two 16-bit numbers, `low` in the low half.
template <class T>
__device__ inline std::uint32_t pack(float low, float high) {
  std::uint32_t packed;
  if constexpr (__is_same(T, half)) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

/// One number of a pair of binary16.
__device__ inline float low_half(std::uint32_t word) {
  float value;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;}" : "=f"(value) : "r"(word));
  return value;
}
__device__ inline float high_half(std::uint32_t word) {
  float value;
  asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, high;}" : "=f"(value) : "r"(word));
  return value;
}

__device__ inline float plus(float a, float b) { return a + b; }
__device__ inline float4 plus(const float4& a, const float4& b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

// Pairs of binary16.

__device__ inline std::uint32_t fma_pair(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
__device__ inline std::uint32_t multiply_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
__device__ inline std::uint32_t subtract_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t difference;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
}
/// The low or the high half of a pair twice.
template <int index>
__device__ inline std::uint32_t twice(std::uint32_t pair) {
  return __byte_perm(pair, 0, index == 0 ? 0x1010 : 0x3232);
}
/// (a & mask) | bits in one instruction.
template <std::uint32_t mask, std::uint32_t bits>
__device__ inline std::uint32_t mask_or(std::uint32_t a) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "n"(mask), "n"(bits));
  return result;
}
/// (a & mask) | b in one instruction.
template <std::uint32_t mask>
__device__ inline std::uint32_t mask_or(std::uint32_t a, std::uint32_t b) {
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "n"(mask), "r"(b));
  return result;
}

}  // namespace rocmforge::hopper
