// A format that is added from outside: a block that says where its codes and scales are. Dequantisation and what the packers
// of all families write follow from it.
#include "extension/toy_format.h"

#include <gtest/gtest.h>

#include "kernels/formats/unpack_block.h"
#include "kernels/formats/weight_format.h"

namespace rocmforge {
namespace {

BlockToy random_block() {
  BlockToy block{};
  block.scale = half(0.375f);
  for (unsigned i = 0; i < sizeof(block.quants); ++i) {
    block.quants[i] = static_cast<std::uint8_t>(37 * i + 11);
  }
  return block;
}

TEST(ToyFormat, IsDequantisedByItsDescription) {
  const BlockToy block = random_block();
  float values[BlockToy::elems];
  dequantize(block, values);
  for (unsigned i = 0; i < 32; ++i) {
    EXPECT_EQ(values[i], 0.375f * static_cast<float>((block.quants[i] & 15) - 8)) << i;
    EXPECT_EQ(values[32 + i], 0.375f * static_cast<float>((block.quants[i] >> 4) - 8)) << i;
  }
}

TEST(ToyFormat, IsUnpackedForTheFormThatHoldsItsNumbers) {
  const gpu::WeightTraits form = gpu::weight_traits(gpu::WeightFormat::q4_0);
  ASSERT_EQ(form.scales, gpu::WeightScales::half);
  ASSERT_EQ(form.code_bits, static_cast<int>(BlockToy::Low::bits));
  const BlockToy block = random_block();
  float values[BlockToy::elems];
  dequantize(block, values);
  UnpackedRow row{};
  for (const int column : {0, 64, 192}) {
    unpack_block(block, column, row);
    for (int i = 0; i < BlockToy::elems; ++i) {
      const UnpackedRow::Strip& strip = row.strips[(column + i) / UnpackedRow::strip_columns];
      EXPECT_EQ(static_cast<float>(strip.scale) * static_cast<float>(row.codes[column + i] - form.offset), values[i])
          << column << " + " << i;
    }
  }
  EXPECT_EQ(static_cast<float>(row.strips[8].scale), 0.0f) << "no other columns are written";
}

}  // namespace
}  // namespace rocmforge
