#include "tensor/quant/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "paths.h"
#include "tensor/quant/formats.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<DType> computed_types() {
  std::vector<DType> types;
  for (const DTypeInfo& entry : all_dtypes()) {
    if (entry.computes) {
      types.push_back(entry.type);
    }
  }
  return types;
}

struct Golden {
  std::vector<char> blocks;
  std::vector<float> values;
};

Golden load_golden(DType type) {
  const DTypeInfo& format = info(type);
  std::string name(format.name);
  for (char& c : name) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::ifstream file(test::test_data("golden/quant/") + name + ".bin", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const std::size_t per_block =
      static_cast<std::size_t>(format.block_bytes) + 4 * static_cast<std::size_t>(format.block_elems);
  EXPECT_FALSE(bytes.empty()) << name << ": no golden file";
  EXPECT_EQ(bytes.size() % per_block, 0u) << name;
  const std::size_t block_bytes = bytes.size() / per_block * static_cast<std::size_t>(format.block_bytes);
  Golden golden;
  golden.blocks.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(block_bytes));
  golden.values.resize((bytes.size() - block_bytes) / 4);
  if (!golden.values.empty()) {
    std::memcpy(golden.values.data(), bytes.data() + block_bytes, bytes.size() - block_bytes);
  }
  return golden;
}

class Dequantize : public testing::TestWithParam<DType> {};

// The values are those of the gguf Python package (tools/goldens/quant_golden.py), compared bit for bit.
TEST_P(Dequantize, MatchesTheReferenceBitForBit) {
  const Golden golden = load_golden(GetParam());
  ASSERT_GE(golden.values.size(), 512u);
  std::vector<float> values(golden.values.size(), std::numeric_limits<float>::quiet_NaN());
  dequantize_row(GetParam(), golden.blocks.data(), values.data(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::memcmp(&values[i], &golden.values[i], sizeof(float)), 0)
        << "element " << i << ": " << values[i] << " instead of " << golden.values[i];
  }
}

// Guards the golden data itself: a constant or all-zero file would let any layout pass.
TEST_P(Dequantize, GoldenValuesAreWellSpread) {
  const Golden golden = load_golden(GetParam());
  int negative = 0;
  int denormal = 0;
  for (const float value : golden.values) {
    negative += std::signbit(value) ? 1 : 0;
    denormal += value != 0 && std::fabs(value) < 0x1p-14f ? 1 : 0;  // below the least normal f16
  }
  EXPECT_GT(negative, static_cast<int>(golden.values.size() / 4));
  EXPECT_LT(negative, static_cast<int>(golden.values.size() * 3 / 4));
  if (GetParam() != DType::nvfp4) {  // its least number is 2^-10
    EXPECT_GT(denormal, 0);
  }
}

TEST_P(Dequantize, WritesWholeBlocksOnly) {
  const std::int64_t block = info(GetParam()).block_elems;
  const std::vector<char> row(row_bytes(GetParam(), block));
  std::vector<float> out(static_cast<std::size_t>(block) + 1, 7.0f);
  dequantize_row(GetParam(), row.data(), out.data(), block);
  EXPECT_EQ(out.back(), 7.0f);
  EXPECT_NE(out[static_cast<std::size_t>(block) - 1], 7.0f);
  if (block > 1) {
    EXPECT_THROW(dequantize_row(GetParam(), row.data(), out.data(), block - 1), LogicError);
  }
}

TEST_P(Dequantize, BlockHasTheSizeOfTheTypeTable) {
  const DTypeInfo& format = info(GetParam());
  EXPECT_TRUE(Formats::visit(GetParam(), [&]<class Block>(Block*) {
    EXPECT_EQ(sizeof(Block), static_cast<std::size_t>(format.block_bytes));
    EXPECT_EQ(Block::elems, format.block_elems);
  }));
}

INSTANTIATE_TEST_SUITE_P(Formats, Dequantize, testing::ValuesIn(computed_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(DequantizeRow, RefusesOtherTypesByName) {
  EXPECT_GE(computed_types().size(), 26u);
  const std::vector<char> row(512);
  std::vector<float> out(256);
  for (const DTypeInfo& entry : all_dtypes()) {
    if (!entry.computes) {
      EXPECT_THAT([&] { dequantize_row(entry.type, row.data(), out.data(), entry.block_elems); },
                  ThrowsMessage<Error>(HasSubstr("type " + std::string(entry.name) + " cannot")));
    }
  }
}

TEST(ScaleCodes, K4FollowsTheTableOfTheFormat) {
  BlockQ4_K block{};
  std::uint8_t(&packed)[12] = block.scales;
  for (int i = 0; i < 12; ++i) {
    packed[i] = static_cast<std::uint8_t>(37 * i + 201);
  }
  for (unsigned k = 0; k < 8; ++k) {
    const int scale = k < 4 ? packed[k] & 63 : (packed[k + 4] & 15) + 16 * (packed[k - 4] >> 6);
    const int minimum = k < 4 ? packed[k + 4] & 63 : (packed[k + 4] >> 4) + 16 * (packed[k] >> 6);
    EXPECT_EQ(static_cast<int>(block.scale_code(k)), scale) << k;
    EXPECT_EQ(static_cast<int>(block.minimum_code(k)), minimum) << k;
  }
}

TEST(MxFp4, ScaleIsUnsignedWithDenormalsAtTheBottom) {
  EXPECT_EQ(mxfp4_half_scale(0), 0x1p-128f);
  EXPECT_EQ(mxfp4_half_scale(1), 0x1p-127f);
  EXPECT_EQ(mxfp4_half_scale(2), 0x1p-126f);
  EXPECT_EQ(mxfp4_half_scale(128), 1.0f);
  EXPECT_EQ(mxfp4_half_scale(254), 0x1p126f);
}

TEST(NvFp4, ScaleIsUnsignedWithDenormalsAndOneCodeForNone) {
  EXPECT_EQ(nvfp4_half_scale(0), 0.0f);
  EXPECT_EQ(nvfp4_half_scale(1), 0x1p-10f);
  EXPECT_EQ(nvfp4_half_scale(8), 0x1p-7f);
  EXPECT_EQ(nvfp4_half_scale(0x38), 0.5f);
  EXPECT_EQ(nvfp4_half_scale(0x7e), 224.0f);
  EXPECT_EQ(nvfp4_half_scale(0x7f), 0.0f);
}

// Blocks of any bytes: every table index is inside the table (a sanitizer would report others), and a block of all ones
// gives NaN only where its scale is NaN.
TEST_P(Dequantize, AnyBytesAreABlock) {
  const DTypeInfo& format = info(GetParam());
  std::vector<float> out(static_cast<std::size_t>(format.block_elems));
  std::vector<std::uint8_t> block(static_cast<std::size_t>(format.block_bytes));
  for (std::size_t at = 0; at < block.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::fill(block.begin(), block.end(), static_cast<std::uint8_t>(0xff));
      block[at] = static_cast<std::uint8_t>(byte);
      out.back() = 12345.0f;
      dequantize_row(GetParam(), block.data(), out.data(), format.block_elems);
      ASSERT_NE(out.back(), 12345.0f) << "byte " << at << ": " << byte;
    }
  }
}

// The integers times the unit are the elements: the packers and the GPU's readers use these in place of dequantize.
TEST_P(Dequantize, IntegersAreSmall) {
  Formats::visit(GetParam(), [&]<class Block>(Block*) {
    if constexpr (IntegerBlock<Block>) {
      Block block;
      for (int fill = 0; fill < 256; ++fill) {
        std::memset(static_cast<void*>(&block), fill, sizeof block);
        for (unsigned first = 0; first < Block::elems; first += 8) {
          const EightBytes integers = block.integers(first);
          for (unsigned i = 0; i < 8; ++i) {
            ASSERT_LE(std::abs(signed_byte(integers, i)), 62) << "fill " << fill << " element " << first + i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace rocmforge
