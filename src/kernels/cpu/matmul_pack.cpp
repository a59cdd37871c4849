#include "kernels/cpu/matmul_pack.h"

#include <algorithm>
#include <cstring>

#include "tensor/quant/formats.h"

namespace rocmforge {

namespace {

/// Up to 256 columns of one row, codes and scales spread out to bytes.
struct PanelRow {
  std::uint8_t codes[packed::panel_columns];
  half scale[packed::panel_blocks];               ///< only the first entry where the format has one for 256 columns
  half addend[packed::panel_blocks];              ///< minimum of each block, or the scale of the minima in the first entry
  std::uint8_t scales[2 * packed::panel_blocks];  ///< integer scale of each block, or of each half block
  std::uint8_t minima[packed::panel_blocks];
};

/// 16 bytes of nibbles: the low ones are elements 0 to 15, the high ones 16 to 31.
void spread_nibbles(const std::uint8_t* bytes, std::uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = bytes[i] & 15;
    codes[i + 16] = bytes[i] >> 4;
  }
}

void add_fifth_bits(const std::uint8_t (&high_bits)[4], std::uint8_t* codes) {
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<std::uint8_t>(codes[i] | (high_bits[i / 8] >> i % 8 & 1) << 4);
  }
}

/// 128 bytes of nibbles, each 32 bytes holding two sub-blocks of 32.
void spread_k_nibbles(const std::uint8_t* bytes, std::uint8_t* codes) {
  for (int i = 0; i < packed::panel_columns; ++i) {
    codes[i] = bytes[i / 64 * 32 + i % 32] >> i % 64 / 32 * 4 & 15;
  }
}

/// 64 bytes of two-bit codes, each 32 bytes holding four sub-blocks of 32.
void spread_k_pairs_of_bits(const std::uint8_t* bytes, std::uint8_t* codes) {
  for (int i = 0; i < packed::panel_columns; ++i) {
    codes[i] = bytes[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
  }
}

/// Bit k of byte l belongs to element 32 * k + l.
void add_k_bits(const std::uint8_t (&high_bits)[32], int place, std::uint8_t* codes) {
  for (int i = 0; i < packed::panel_columns; ++i) {
    codes[i] = static_cast<std::uint8_t>(codes[i] | (high_bits[i % 32] >> i / 32 & 1) << place);
  }
}

// read(block, b, row): puts the file's block `b` of a panel into `row`. Where fields lie is told in tensor/quant/.
void read(const BlockQ4_0& block, int b, PanelRow& row) {
  row.scale[b] = block.scale;
  spread_nibbles(block.quants, row.codes + 32 * b);
}
void read(const BlockIQ4_NL& block, int b, PanelRow& row) {
  row.scale[b] = block.scale;
  spread_nibbles(block.quants, row.codes + 32 * b);
}
void read(const BlockQ4_1& block, int b, PanelRow& row) {
  row.scale[b] = block.scale;
  row.addend[b] = block.minimum;
  spread_nibbles(block.quants, row.codes + 32 * b);
}
void read(const BlockQ5_0& block, int b, PanelRow& row) {
  row.scale[b] = block.scale;
  spread_nibbles(block.quants, row.codes + 32 * b);
  add_fifth_bits(block.high_bits, row.codes + 32 * b);
}
void read(const BlockQ5_1& block, int b, PanelRow& row) {
  row.scale[b] = block.scale;
  row.addend[b] = block.minimum;
  spread_nibbles(block.quants, row.codes + 32 * b);
  add_fifth_bits(block.high_bits, row.codes + 32 * b);
}
void read(const BlockMXFP4& block, int b, PanelRow& row) {
  row.scales[b] = block.exponent;
  spread_nibbles(block.quants, row.codes + 32 * b);
}
void read(const BlockQ8_0& block, int b, PanelRow& row) {
  row.scale[b] = block.scale;
  for (int i = 0; i < 32; ++i) {
    row.codes[32 * b + i] = static_cast<std::uint8_t>(block.quants[i] + 128);
  }
}
void read(const BlockQ2_K& block, int, PanelRow& row) {
  row.scale[0] = block.scale;
  row.addend[0] = block.minimum_scale;
  std::memcpy(row.scales, block.scales, sizeof block.scales);
  spread_k_pairs_of_bits(block.quants, row.codes);
}
void read(const BlockQ3_K& block, int, PanelRow& row) {
  row.scale[0] = block.scale;
  std::int8_t scales[16];
  unpack_scales_q3_k(block.scales, scales);
  std::memcpy(row.scales, scales, sizeof scales);
  spread_k_pairs_of_bits(block.quants, row.codes);
  add_k_bits(block.high_bits, 2, row.codes);
}
void read(const BlockQ4_K& block, int, PanelRow& row) {
  row.scale[0] = block.scale;
  row.addend[0] = block.minimum_scale;
  unpack_scales_k4(block.scales, row.scales, row.minima);
  spread_k_nibbles(block.quants, row.codes);
}
void read(const BlockQ5_K& block, int, PanelRow& row) {
  row.scale[0] = block.scale;
  row.addend[0] = block.minimum_scale;
  unpack_scales_k4(block.scales, row.scales, row.minima);
  spread_k_nibbles(block.quants, row.codes);
  add_k_bits(block.high_bits, 4, row.codes);
}
void read(const BlockQ6_K& block, int, PanelRow& row) {
  row.scale[0] = block.scale;
  std::memcpy(row.scales, block.scales, sizeof block.scales);
  for (int i = 0; i < packed::panel_columns; ++i) {
    const int part = i / 128;
    const int low = block.low_bits[64 * part + i % 64] >> i % 128 / 64 * 4 & 15;
    const int high = block.high_bits[32 * part + i % 32] >> i % 128 / 32 * 2 & 3;
    row.codes[i] = static_cast<std::uint8_t>(low | high << 4);
  }
}
void read(const BlockIQ4_XS& block, int, PanelRow& row) {
  row.scale[0] = block.scale;
  std::int8_t scales[8];
  unpack_scales_iq4_xs(block.scales_low, block.scales_high, scales);
  std::memcpy(row.scales, scales, sizeof scales);
  for (int k = 0; k < 8; ++k) {
    spread_nibbles(block.quants + 16 * k, row.codes + 32 * k);
  }
}

void read_panel_row(DType type, const std::uint8_t* from, int blocks, PanelRow& row) {
  Formats::visit(type, [&]<class Block>(Block*) {
    if constexpr (requires(Block block) { read(block, 0, row); }) {
      for (int b = 0; b < blocks * packed::block_columns / Block::elems; ++b) {
        Block block;
        std::memcpy(&block, from + b * sizeof block, sizeof block);
        read(block, b, row);
      }
    }
  });
}

/// Adds four codes (the bytes of `codes`) of row `r` to a plane: column 4 * i and the three after it.
void put_codes(std::uint8_t* plane, int bits, int i, int r, std::uint32_t codes) {
  std::uint8_t* place = plane + i % bits * 64 + 4 * r;
  std::uint32_t word = 0;
  std::memcpy(&word, place, 4);
  word |= codes << i / bits * bits;
  std::memcpy(place, &word, 4);
}

void put_planes(const PackedFormat& format, const std::uint8_t* codes, int r, std::uint8_t* planes) {
  const std::uint32_t low_mask = ((1u << format.low_bits) - 1) * 0x01010101u;
  for (int i = 0; i < 8; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, codes + 4 * i, 4);
    put_codes(planes, format.low_bits, i, r, word & low_mask);
    if (format.high_bits > 0) {
      put_codes(planes + packed::low_bytes(format), format.high_bits, i, r, (word & ~low_mask) >> format.low_bits);
    }
  }
}

void put_scales(const PackedFormat& format, const PanelRow& row, int blocks, int r, std::uint8_t* panel) {
  if (packed::head_bytes(format) > 0) {
    std::memcpy(panel + 2 * r, &row.scale[0], 2);
  }
  if (packed::head_bytes(format) > 32) {
    std::memcpy(panel + 32 + 2 * r, &row.addend[0], 2);
  }
  for (int b = 0; b < blocks; ++b) {
    std::uint8_t* scales = panel + packed::head_bytes(format) + b * packed::scale_bytes(format);
    switch (format.scales) {
      case ScaleForm::half_and_addend:
        std::memcpy(scales + 32 + 2 * r, &row.addend[b], 2);
        [[fallthrough]];
      case ScaleForm::half:
        std::memcpy(scales + 2 * r, &row.scale[b], 2);
        break;
      case ScaleForm::byte_and_minimum:
        scales[16 + r] = row.minima[b];
        [[fallthrough]];
      case ScaleForm::signed_byte:
      case ScaleForm::exponent:
        scales[r] = row.scales[b];
        break;
      case ScaleForm::signed_bytes:
      case ScaleForm::nibbles:
        scales[r] = row.scales[2 * b];
        scales[16 + r] = row.scales[2 * b + 1];
        break;
    }
  }
}

/// Columns [begin, end) of 16 rows, of which the group has `count`: destination[column][row].
template <class Element>
void interleave(const std::uint8_t* rows, std::int64_t row_stride, int count, std::int64_t columns,
                std::uint8_t* destination) {
  constexpr std::int64_t together = 64;  // columns whose lines of all rows stay in the first cache
  for (std::int64_t begin = 0; begin < columns; begin += together) {
    const std::int64_t end = std::min(begin + together, columns);
    for (int r = 0; r < count; ++r) {
      const std::uint8_t* from = rows + r * row_stride;
      std::uint8_t* to = destination + r * static_cast<std::int64_t>(sizeof(Element));
      for (std::int64_t c = begin; c < end; ++c) {
        std::memcpy(to + c * packed::group_rows * static_cast<std::int64_t>(sizeof(Element)),
                    from + c * static_cast<std::int64_t>(sizeof(Element)), sizeof(Element));
      }
    }
  }
}

}  // namespace

const PackedFormat* find_packed_format(DType type) {
  const auto* found = std::ranges::find(packed::formats, type, &PackedFormat::type);
  return found == std::end(packed::formats) ? nullptr : found;
}

void pack_matmul_group(const PackedFormat& format, const std::uint8_t* rows, std::int64_t n, std::int64_t k,
                       std::int64_t group, std::uint8_t* destination) {
  const auto row_stride = static_cast<std::int64_t>(row_bytes(format.type, k));
  const auto panel_stride =
      static_cast<std::int64_t>(row_bytes(format.type, packed::panel_columns));  // a short panel is always the last one
  std::memset(destination, 0, static_cast<std::size_t>(packed::group_bytes(format, k)));
  const auto first = group * packed::group_rows;
  const int count = static_cast<int>(std::min<std::int64_t>(packed::group_rows, n - first));
  PanelRow row;
  for (std::int64_t column = 0, panel_index = 0; column < k; column += packed::panel_columns, ++panel_index) {
    const int blocks = static_cast<int>(std::min<std::int64_t>(packed::panel_columns, k - column)) / packed::block_columns;
    for (int r = 0; r < count; ++r) {
      read_panel_row(format.type, rows + (first + r) * row_stride + panel_index * panel_stride, blocks, row);
      put_scales(format, row, blocks, r, destination);
      std::uint8_t* planes = destination + packed::code_offset(format, blocks);
      for (int b = 0; b < blocks; ++b) {
        put_planes(format, row.codes + b * packed::block_columns, r, planes + b * packed::code_bytes(format));
      }
    }
    destination += packed::panel_bytes(format, blocks);
  }
}

void pack_plain_group(DType type, const std::uint8_t* rows, std::int64_t n, std::int64_t k, std::int64_t group,
                      std::uint8_t* destination) {
  const auto row_stride = static_cast<std::int64_t>(row_bytes(type, k));
  const std::int64_t first = group * packed::group_rows;
  const int count = static_cast<int>(std::min<std::int64_t>(packed::group_rows, n - first));
  rows += first * row_stride;
  if (count < packed::group_rows || k % 2 != 0) {
    std::memset(destination, 0, static_cast<std::size_t>(packed::plain_group_bytes(type, k)));
  }
  if (type == DType::f32) {
    return interleave<std::uint32_t>(rows, row_stride, count, k, destination);
  }
  if (type == DType::f16) {
    return interleave<std::uint16_t>(rows, row_stride, count, k, destination);
  }
  interleave<std::uint32_t>(rows, row_stride, count, k / 2, destination);  // pairs of columns
  for (int r = 0; k % 2 != 0 && r < count; ++r) {
    std::memcpy(destination + (k / 2 * packed::group_rows + r) * 4, rows + r * row_stride + (k - 1) * 2, 2);
  }
}

}  // namespace rocmforge
