#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/half.h"
#include "kernels/formats/hopper/pack.h"
#include "kernels/formats/hopper/weight_layout.h"
#include "tensor/quant/dequantize.h"
#include "tensor/quant/mxfp4.h"
#include "tensor/random_rows.h"

namespace rocmforge::hopper {
namespace {

/// A weight as weight_layout.h describes it, read element by element.
class PackedWeight {
 public:
  PackedWeight(DType type, std::int64_t k, const std::vector<std::uint8_t>& bytes)
      : format_(weight_format(type)), layout_(weight_layout(format_)), k_(k), bytes_(bytes) {}

  [[nodiscard]] float value(std::int64_t row, std::int64_t column) const {
    const std::uint8_t* record =
        bytes_.data() + row / 16 * weight_tile_bytes(layout_, k_) + column / layout_.elems * layout_.record_bytes;
    const Place at{static_cast<int>(row % 16), static_cast<int>(column % layout_.elems)};
    const std::uint8_t* scales = record + layout_.scale_offset;
    const std::uint8_t* super = record + layout_.super_offset;
    switch (format_) {
      case WeightFormat::q4_0:
        return half_at(scales + at.row * 8 + at.block() * 2) * static_cast<float>(code(record, at) - 8);
      case WeightFormat::q5_0:
        return half_at(scales + at.row * 8 + at.block() * 2) * static_cast<float>(code(record, at) - 16);
      case WeightFormat::q8_0:
        return half_at(scales + at.row * 8 + at.block() * 2) * static_cast<float>(wide_code(record, at));
      case WeightFormat::mxfp4:
        return mxfp4_half_scale(scales[at.row * 4 + at.block()]) * static_cast<float>(mxfp4_values[code(record, at)]);
      case WeightFormat::q4_k:
      case WeightFormat::q5_k: {
        const std::uint8_t* word = scales + at.row * 16 + at.block() / 2 * 4;
        const float step = half_at(super + at.row * 4) * static_cast<float>(word[at.block() % 2]);
        const float minimum = half_at(super + at.row * 4 + 2) * static_cast<float>(word[2 + at.block() % 2]);
        return step * static_cast<float>(code(record, at)) - minimum;
      }
      case WeightFormat::q6_k: {
        const std::uint8_t scale = scales[at.row * 16 + at.block() % 4 * 4 + at.group() * 2 + at.column % 32 / 16];
        return half_at(super + at.row * 2) * static_cast<float>(static_cast<std::int8_t>(scale)) *
               static_cast<float>(code(record, at) - 32);
      }
      default:
        break;
    }
    return 0.0f;
  }

 private:
  struct Place {
    int row;
    int column;  ///< of the record
    [[nodiscard]] int group() const { return column / 128; }
    [[nodiscard]] int block() const { return column / 32; }
    [[nodiscard]] int s() const { return column % 128 / 32; }
    [[nodiscard]] int c() const { return column % 32 / 8; }
    [[nodiscard]] int e() const { return column % 8 / 4; }
    [[nodiscard]] int j() const { return column % 4; }
  };

  static float half_at(const std::uint8_t* from) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, 2);
    return half_to_float(bits);
  }
  [[nodiscard]] int code(const std::uint8_t* record, const Place& at) const {
    const std::uint8_t low = record[1024 * at.group() + 64 * at.row + 16 * at.c() + 4 * at.s() + at.j()] >> 4 * at.e() & 15;
    const std::uint8_t* high = record + layout_.high_offset;
    if (format_ == WeightFormat::q5_0 || format_ == WeightFormat::q5_k) {
      const std::uint8_t byte = high[256 * at.group() + 16 * at.row + 4 * at.c() + at.j()];
      return low | (byte >> (2 * at.s() + at.e()) & 1) << 4;
    }
    if (format_ == WeightFormat::q6_k) {
      const std::uint8_t byte = high[512 * at.group() + 32 * at.row + 8 * at.c() + at.s() / 2 * 4 + at.j()];
      return low | (byte >> (4 * (at.s() % 2) + 2 * at.e()) & 3) << 4;
    }
    return low;
  }
  static int wide_code(const std::uint8_t* record, const Place& at) {
    return static_cast<std::int8_t>(
        record[1024 * (at.s() / 2) + 64 * at.row + 16 * at.c() + 8 * (at.s() % 2) + at.column % 8]);
  }

  WeightFormat format_;
  WeightLayout layout_;
  std::int64_t k_;
  const std::vector<std::uint8_t>& bytes_;
};

class HopperPack : public testing::TestWithParam<DType> {};

TEST_P(HopperPack, EveryElementLiesWhereTheLayoutSays) {
  const DType type = GetParam();
  const std::int64_t block = info(type).block_elems;
  for (const std::int64_t k : {block, 3 * block, std::int64_t{1280}}) {
    constexpr std::int64_t n = 37;
    Random random(9);
    const std::vector<std::byte> rows = random_rows(type, n, k, random);
    const WeightLayout layout = weight_layout(weight_format(type));
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(weight_tiles(n) * weight_tile_bytes(layout, k)), 0xcd);
    pack_tiles(type, rows.data(), n, k, 0, 1, bytes.data());
    pack_tiles(type, rows.data(), n, k, 1, weight_tiles(n), bytes.data());
    const PackedWeight packed(type, k, bytes);
    std::vector<float> expected(static_cast<std::size_t>(k));
    for (std::int64_t row = 0; row < n; ++row) {
      dequantize_row(type, rows.data() + static_cast<std::size_t>(row) * row_bytes(type, k), expected.data(), k);
      for (std::int64_t column = 0; column < k; ++column) {
        ASSERT_FLOAT_EQ(packed.value(row, column), expected[static_cast<std::size_t>(column)]) << row << ", " << column;
      }
    }
    // The padding of tiles and records multiplies to zero.
    const std::int64_t padded = weight_records(layout, k) * layout.elems;
    for (std::int64_t row = 0; row < weight_tiles(n) * 16; ++row) {
      for (std::int64_t column = row < n ? k : 0; column < padded; ++column) {
        ASSERT_EQ(packed.value(row, column), 0.0f) << row << ", " << column;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, HopperPack,
                         testing::Values(DType::q4_0, DType::q5_0, DType::q8_0, DType::mxfp4, DType::q4_k, DType::q5_k,
                                         DType::q6_k),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace rocmforge::hopper
