#pragma once

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

// Element types without blocks, in the form of the block formats: a block has one value.

struct BlockF32 {
  static constexpr DType dtype = DType::f32;
  static constexpr int elems = 1;
  float value;
};
static_assert(sizeof(BlockF32) == 4);

struct BlockF16 {
  static constexpr DType dtype = DType::f16;
  static constexpr int elems = 1;
  half value;
};
static_assert(sizeof(BlockF16) == 2);

struct BlockBF16 {
  static constexpr DType dtype = DType::bf16;
  static constexpr int elems = 1;
  bfloat16 value;
};
static_assert(sizeof(BlockBF16) == 2);

static constexpr void dequantize(const BlockF32& block, float* out) { *out = block.value; }
static constexpr void dequantize(const BlockF16& block, float* out) { *out = static_cast<float>(block.value); }
static constexpr void dequantize(const BlockBF16& block, float* out) { *out = static_cast<float>(block.value); }

}  // namespace rocmforge
