#pragma once

// Pairs of 16-bit numbers in a word, and arithmetic by single instructions. Semantics: NVIDIA PTX ISA manual.

#include <cstdint>

#include "kernels/tile/device_code.h"

namespace rocmforge::hopper {

using gpu::exp2_fast;
using gpu::pack_pair;

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
/// The low or the high half of a pair twice. Arithmetic of pairs takes a half twice without an instruction for it, where the
/// compiler sees that it is one.
template <int index>
__device__ inline std::uint32_t twice(std::uint32_t pair) {
  std::uint32_t both;
  if constexpr (index == 0) {
    asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {low, low};}" : "=r"(both) : "r"(pair));
  } else {
    asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\nmov.b32 %0, {high, high};}" : "=r"(both) : "r"(pair));
  }
  return both;
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
