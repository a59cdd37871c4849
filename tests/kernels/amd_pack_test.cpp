#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "kernels/formats/amd/pack.h"
#include "kernels/formats/amd/weight_layout.h"
#include "tensor/quant/dequantize.h"
#include "tensor/quant/formats.h"
#include "tensor/quant/iq4_nl.h"
#include "tensor/quant/mxfp4.h"
#include "tensor/quant/nvfp4.h"
#include "tensor/random_rows.h"

namespace rocmforge::amd {
namespace {

float half_from(const std::uint8_t* bytes) {
  half value;
  std::memcpy(&value, bytes, 2);
  return static_cast<float>(value);
}

int two_bits_of(const std::uint8_t* words, int e) { return words[e / 16 * 4 + e % 4] >> e % 16 / 4 * 2 & 3; }

/// The code of element `e` of piece `piece` of a record as weight_layout.h describes it.
int code_of(const WeightLayout& layout, const std::uint8_t* record, int piece, int e) {
  if (layout.code_bytes == 32) {
    return static_cast<std::int8_t>(record[e / 16 * code_plane_bytes + 16 * piece + e % 16]);
  }
  const std::uint8_t* high = record + layout.high_offset + layout.high_bytes * piece;
  const int low_bits = layout.code_bytes == 8 ? 2 : 4;
  const int low = low_bits == 2 ? two_bits_of(record + 8 * piece, e) : record[16 * piece + e % 16] >> (e < 16 ? 0 : 4) & 15;
  return low | (layout.high_bytes == 4   ? high[e % 4] >> e / 4 & 1
                : layout.high_bytes == 8 ? two_bits_of(high, e)
                                         : 0)
                   << low_bits;
}

/// The value of the code.
float element_of(WeightFormat format, const std::uint8_t* record, int piece, int e) {
  const WeightLayout layout = weight_layout(format);
  const std::uint8_t* scales = record + layout.scale_offset + layout.scale_bytes * piece;
  const std::uint8_t* super = record + layout.super_offset + layout.super_bytes * (piece / record_pieces);
  const int code = code_of(layout, record, piece, e);
  const auto own = static_cast<std::int8_t>(scales[e / 16]);  // of elements 0..15 or 16..31
  switch (format) {
    case WeightFormat::q4_0:
      return half_from(scales) * static_cast<float>(code - 8);
    case WeightFormat::q5_0:
      return half_from(scales) * static_cast<float>(code - 16);
    case WeightFormat::q8_0:
      return half_from(scales) * static_cast<float>(code);
    case WeightFormat::mxfp4:
      return mxfp4_half_scale(scales[0]) * static_cast<float>(mxfp4_values[code]);
    case WeightFormat::nvfp4:
      return nvfp4_half_scale(scales[e / 16]) * static_cast<float>(mxfp4_values[code]);
    case WeightFormat::q4_1:
    case WeightFormat::q5_1:
      return half_from(scales) * static_cast<float>(code) + half_from(scales + 2);
    case WeightFormat::iq4_nl:
      return half_from(scales) * static_cast<float>(iq4_values[code]);
    case WeightFormat::iq4_xs:
      return half_from(super) * static_cast<float>(static_cast<std::int8_t>(scales[0])) *
             static_cast<float>(iq4_values[code]);
    case WeightFormat::iq3: {
      const int value = iq3_values[code];
      const int of_xxs = value == 30 ? 31 : value == -30 ? -31 : value;
      return half_from(super) * static_cast<float>(scales[0] % 128) * 0.5f *
             static_cast<float>(scales[0] < 128 ? value : of_xxs);
    }
    case WeightFormat::iq1_iq2: {
      const float scale = std::abs(half_from(super)) * static_cast<float>(2 * (scales[0] >> (e < 16 ? 0 : 4) & 15) + 1);
      return scale * 0.125f * static_cast<float>(super[1] < 128 ? iq2_values[code] : iq1_values[code]);
    }
    case WeightFormat::q4_k:
    case WeightFormat::q5_k: {
      const float step = half_from(super) * static_cast<float>(scales[0]);
      return step * static_cast<float>(code) - half_from(super + 2) * static_cast<float>(scales[1]);
    }
    case WeightFormat::q2_k: {
      const float step = half_from(super) * static_cast<float>(own & 15);
      return step * static_cast<float>(code) - half_from(super + 2) * static_cast<float>(own >> 4 & 15);
    }
    case WeightFormat::q3_k:
      return half_from(super) * static_cast<float>(own) * static_cast<float>(code - 4);
    case WeightFormat::q6_k:
      return half_from(super) * static_cast<float>(own) * static_cast<float>(code - 32);
    default:
      break;
  }
  return 0.0f;
}

/// Of every third block.
void negate_scales(DType type, std::vector<std::byte>& rows) {
  Formats::visit(type, [&]<class Block>(Block*) {
    if constexpr (has_block_scale<Block>) {
      for (std::size_t at = 0; at < rows.size(); at += 3 * sizeof(Block)) {
        Block block;
        std::memcpy(&block, rows.data() + at, sizeof block);
        half scale = block_scale(block);
        scale.bits ^= 0x8000;
        set_block_scale(block, scale);
        std::memcpy(rows.data() + at, &block, sizeof block);
      }
    }
  });
}

class AmdPack : public testing::TestWithParam<DType> {};

TEST_P(AmdPack, EveryElementLiesWhereTheLayoutSays) {
  const DType type = GetParam();
  const WeightFormat format = weight_format(type);
  const WeightLayout layout = weight_layout(format);
  for (const std::int64_t k : {std::int64_t{info(type).block_elems}, std::int64_t{1280}}) {
    constexpr std::int64_t n = 21;
    Random random(9);
    std::vector<std::byte> rows = random_rows(type, n, k, random);
    negate_scales(type, rows);
    std::vector<std::uint8_t> bytes(packed_weight_bytes(type, n, k), 0xcd);
    pack_tiles(type, rows.data(), n, k, 0, 1, bytes.data());
    pack_tiles(type, rows.data(), n, k, 1, weight_tiles(n), bytes.data());
    std::vector<float> expected(static_cast<std::size_t>(weight_records(k) * record_elems));
    for (std::int64_t row = 0; row < weight_tiles(n) * weight_tile_rows; ++row) {
      std::fill(expected.begin(), expected.end(), 0.0f);  // the padding of tiles and records multiplies to zero
      if (row < n) {
        dequantize_row(type, rows.data() + static_cast<std::size_t>(row) * row_bytes(type, k), expected.data(), k);
      }
      for (std::size_t column = 0; column < expected.size(); ++column) {
        const std::uint8_t* record = bytes.data() + row / weight_tile_rows * weight_tile_bytes(layout, k) +
                                     static_cast<std::int64_t>(column) / record_elems * layout.record_bytes;
        const auto piece =
            static_cast<int>(row % weight_tile_rows) * record_pieces + static_cast<int>(column) % record_elems / piece_elems;
        ASSERT_FLOAT_EQ(element_of(format, record, piece, static_cast<int>(column) % piece_elems), expected[column])
            << row << ", " << column;
      }
    }
  }
}

std::vector<DType> packed_types() {
  std::vector<DType> types;
  for (const gpu::StoredType& stored : gpu::stored_types) {
    types.push_back(stored.type);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Formats, AmdPack, testing::ValuesIn(packed_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace rocmforge::amd
