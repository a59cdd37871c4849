#include "kernels/formats/cpu/matmul_pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/math.h"
#include "tensor/quant/formats.h"

namespace rocmforge {

namespace {

constexpr std::size_t panel_halves = std::size_t{2} * packed::panel_blocks;

/// Up to 256 columns of one row, codes and scales spread out to bytes.
struct PanelRow {
  std::uint8_t codes[packed::panel_columns];
  half scale[panel_halves];           ///< of each block or half block; the first entry alone where one is for 256 columns
  half addend[packed::panel_blocks];  ///< minimum of each block, or the scale of the minima in the first entry
  std::uint8_t scales[panel_halves];  ///< integer scale of each block, or of each half block
  std::uint8_t minima[panel_halves];  ///< likewise
};

/// Puts the file's block `b` of a panel into `row`.
template <DescribedBlock Block>
void read(const Block& block, int b, PanelRow& row) {
  unpack_codes(block, row.codes + Block::elems * b);
  if constexpr (requires { block.exponent; }) {
    row.scales[b] = block.exponent;
  } else if constexpr (requires { block.group_scale(0); }) {
    constexpr unsigned groups = Block::elems / Block::group;
    for (unsigned group = 0; group < groups; ++group) {
      row.scale[static_cast<unsigned>(b) * groups + group] = half(block.group_scale(group));
    }
  } else {
    row.scale[b] = block.scale;
  }
  if constexpr (requires { block.minimum; }) {
    row.addend[b] = block.minimum;
  } else if constexpr (requires { block.minimum_scale; }) {
    row.addend[b] = block.minimum_scale;
  }
  if constexpr (requires { block.scale_code(0); }) {
    for (unsigned group = 0; group < Block::elems / Block::group; ++group) {
      row.scales[group] = static_cast<std::uint8_t>(block.scale_code(group));
    }
  }
  if constexpr (requires { block.minimum_code(0); }) {
    for (unsigned group = 0; group < Block::elems / Block::group; ++group) {
      row.minima[group] = static_cast<std::uint8_t>(block.minimum_code(group));
    }
  }
}

/// Scales of formats with three values, codes 0, 1 and 2: scale * s * ((code - 1) + shift / 8) is
/// scale * s * code - scale / 8 * s * (8 - shift).
template <class Block>
void read_ternary_scales(const Block& block, PanelRow& row) {
  row.scale[0] = row.addend[0] = block_scale(block);
  for (unsigned b = 0; b < packed::panel_blocks; ++b) {
    unsigned scale = 1;
    unsigned shifted = 8;
    if constexpr (requires { block.shifts_down(b); }) {
      scale = block.scale_code(b);
      shifted = block.shifts_down(b) ? 9 : 7;
    }
    row.scales[b] = static_cast<std::uint8_t>(scale);
    row.minima[b] = static_cast<std::uint8_t>(scale * shifted);
  }
}

template <class Block>
constexpr PackedFormat format_of = *std::ranges::find(packed::formats, Block::dtype, &PackedFormat::type);

/// The code of each value that an element may have, by the low eight bits of that value.
template <IntegerBlock Block>
constexpr std::array<std::uint8_t, 256> integer_codes = [] {
  constexpr PackedFormat format = format_of<Block>;
  std::array<std::uint8_t, 256> codes{};
  for (int code = 0; code < 1 << (format.low_bits + format.high_bits); ++code) {
    if (format.codes != CodeForm::plain) {
      codes[static_cast<std::uint8_t>(packed::values_of(format.codes)[code])] = static_cast<std::uint8_t>(code);
      continue;
    }
    constexpr int one = static_cast<int>(1.0f / Block::unit);
    for (const int shift : {0, -one / 8, one / 8}) {
      codes[static_cast<std::uint8_t>(one * (code - 1) + shift)] = static_cast<std::uint8_t>(code);
    }
  }
  return codes;
}();

/// Reads a block of 256 elements, which is all that a panel has of a row.
template <IntegerBlock Block>
void read(const Block& block, int, PanelRow& row) {
  static_assert(Block::elems == packed::panel_columns);
  for (unsigned first = 0; first < Block::elems; first += 8) {
    const EightBytes integers = block.integers(first);
    for (unsigned i = 0; i < 8; ++i) {
      row.codes[first + i] = integer_codes<Block>[static_cast<std::uint8_t>(signed_byte(integers, i))];
    }
  }
  if constexpr (format_of<Block>.scales == ScaleForm::byte_and_minimum) {
    read_ternary_scales(block, row);
  } else {
    row.scale[0] = block_scale(block);
    for (unsigned half_block = 0; half_block < panel_halves; ++half_block) {
      row.scales[half_block] = static_cast<std::uint8_t>(block.scale_code(half_block * 16 / Block::group));
    }
  }
}

void read(const BlockTQ2_0& block, int, PanelRow& row) {
  unpack_codes(block, row.codes);
  read_ternary_scales(block, row);
}

void read_panel_row(DType type, const std::uint8_t* from, int blocks, PanelRow& row) {
  Formats::visit(type, [&]<class Block>(Block*) {
    if constexpr (Block::elems > 1) {
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

std::uint8_t nibbles(const PanelRow& row, int half_block) {
  return static_cast<std::uint8_t>(row.scales[half_block] | row.minima[half_block] << 4);
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
      case ScaleForm::half_pair:
        std::memcpy(scales + 2 * r, &row.scale[2 * b], 2);
        std::memcpy(scales + 32 + 2 * r, &row.scale[2 * b + 1], 2);
        break;
      case ScaleForm::byte_and_minimum:
        scales[16 + r] = row.minima[b];
        [[fallthrough]];
      case ScaleForm::signed_byte:
      case ScaleForm::exponent:
        scales[r] = row.scales[b];
        break;
      case ScaleForm::signed_bytes:
        scales[r] = row.scales[2 * b];
        scales[16 + r] = row.scales[2 * b + 1];
        break;
      case ScaleForm::nibbles:
        scales[r] = nibbles(row, 2 * b);
        scales[16 + r] = nibbles(row, 2 * b + 1);
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

// The planes of a packed panel hold the bits of the file's codes, where these lie in planes.
static_assert(std::ranges::all_of(packed::formats, [](const PackedFormat& format) {
  bool same = false;
  Formats::visit(format.type, [&]<class Block>(Block*) {
    if constexpr (DescribedBlock<Block>) {
      same = format.low_bits == Block::Low::bits && format.high_bits == Block::High::bits;
    }
    if constexpr (IntegerBlock<Block>) {
      same = true;
    }
  });
  return same;
}));

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

void pack_matmul_groups(DType type, const std::uint8_t* rows, std::int64_t n, std::int64_t k, std::int64_t begin,
                        std::int64_t end, std::uint8_t* packed) {
  const PackedFormat* format = find_packed_format(type);
  for (std::int64_t group = begin; group < end; ++group) {
    std::uint8_t* to = packed + group * packed_group_bytes(type, k);
    if (format != nullptr) {
      pack_matmul_group(*format, rows, n, k, group, to);
    } else {
      pack_plain_group(type, rows, n, k, group, to);
    }
  }
}

std::int64_t packed_group_bytes(DType type, std::int64_t k) {
  const PackedFormat* format = find_packed_format(type);
  return format != nullptr ? packed::group_bytes(*format, k) : packed::plain_group_bytes(type, k);
}

std::size_t packed_matmul_bytes(DType type, std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(divide_up(n, packed::group_rows) * packed_group_bytes(type, k));
}

Support check_packed_format(DType type) {
  if (info(type).block_elems > 1 && find_packed_format(type) == nullptr) {
    return Support::no(fmt::format("format {} has no packed layout", info(type).name));
  }
  return Support::yes();
}

}  // namespace rocmforge
