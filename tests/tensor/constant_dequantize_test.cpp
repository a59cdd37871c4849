#include <gtest/gtest.h>

#include "tensor/quant/formats.h"

// GPU code calls the blocks' dequantize because it is constexpr. What the compiler computes here would not compile
// otherwise.

namespace rocmforge {
namespace {

/// Formats whose block of zero bytes dequantises to zeros while compiling.
constexpr int formats_with_constant_zeros() {
  int count = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    Formats::visit(static_cast<DType>(id), [&]<class Block>(Block*) {
      const Block block{};
      float values[Block::elems]{};
      dequantize(block, values);
      bool zeros = true;
      for (const float value : values) {
        zeros = zeros && value == 0.0f;
      }
      count += zeros ? 1 : 0;
    });
  }
  return count;
}

TEST(ConstantDequantize, EveryFormatIsComputedWhileCompiling) {
  constexpr int constant = formats_with_constant_zeros();
  int computes = 0;
  for (const DTypeInfo& format : all_dtypes()) {
    computes += format.computes ? 1 : 0;
  }
  EXPECT_EQ(constant, computes);
}

TEST(ConstantDequantize, ScaleTimesQuant) {
  constexpr float value = [] {
    BlockQ8_0 block{};
    block.scale = half(0.5f);
    block.quants[31] = -3;
    float values[BlockQ8_0::elems]{};
    dequantize(block, values);
    return values[31];
  }();
  static_assert(value == -1.5f);
}

}  // namespace
}  // namespace rocmforge
