#include "kernels/formats/cpu/matmul_pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/math.h"
#include "kernels/formats/unpacked_row.h"
#include "tensor/quant/formats.h"

namespace rocmforge {

namespace {

template <class Block>
constexpr PackedFormat format_of = *std::ranges::find(packed::formats, Block::dtype, &PackedFormat::type);

using CodeTable = std::array<std::uint8_t, 256>;

/// The code of each value that an element may have, by the low eight bits of that value.
template <IntegerBlock Block>
constexpr CodeTable integer_codes = [] {
  constexpr PackedFormat format = format_of<Block>;
  CodeTable codes{};
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

/// The table of a type whose blocks give integers, else null.
const CodeTable* code_table(DType type) {
  const CodeTable* table = nullptr;
  Formats::visit(type, [&]<class Block>(Block*) {
    if constexpr (IntegerBlock<Block>) {
      table = &integer_codes<Block>;
    }
  });
  return table;
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

std::uint8_t nibbles(const UnpackedRow::Strip& strip) {
  return static_cast<std::uint8_t>(strip.scale_code | strip.minimum_code << 4);
}

/// The minimum of a block in units of 2^-minimum_shift. IQ1_S has its own in these.
std::uint8_t minimum_of(const PackedFormat& format, const UnpackedRow::Strip& strip) {
  return static_cast<std::uint8_t>(format.type == DType::iq1_s ? strip.minimum_code
                                                               : strip.minimum_code << format.minimum_shift);
}

void put_scales(const PackedFormat& format, const UnpackedRow& row, int blocks, int r, std::uint8_t* panel) {
  if (packed::head_bytes(format) > 0) {
    std::memcpy(panel + 2 * r, &row.scale, 2);
  }
  if (packed::head_bytes(format) > 32) {
    std::memcpy(panel + 32 + 2 * r, &row.minimum, 2);
  }
  for (int b = 0; b < blocks; ++b) {
    std::uint8_t* scales = panel + packed::head_bytes(format) + b * packed::scale_bytes(format);
    const UnpackedRow::Strip& first = row.strips[2 * b];
    const UnpackedRow::Strip& second = row.strips[2 * b + 1];
    switch (format.scales) {
      case ScaleForm::half_and_addend:
        std::memcpy(scales + 32 + 2 * r, &first.minimum, 2);
        [[fallthrough]];
      case ScaleForm::half:
        std::memcpy(scales + 2 * r, &first.scale, 2);
        break;
      case ScaleForm::half_pair:
        std::memcpy(scales + 2 * r, &first.scale, 2);
        std::memcpy(scales + 32 + 2 * r, &second.scale, 2);
        break;
      case ScaleForm::byte_and_minimum:
        scales[16 + r] = minimum_of(format, first);
        [[fallthrough]];
      case ScaleForm::signed_byte:
      case ScaleForm::exponent:
        scales[r] = first.scale_code;
        break;
      case ScaleForm::signed_bytes:
        scales[r] = first.scale_code;
        scales[16 + r] = second.scale_code;
        break;
      case ScaleForm::nibbles:
        scales[r] = nibbles(first);
        scales[16 + r] = nibbles(second);
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
  const CodeTable* const table = code_table(format.type);
  UnpackedRow row;
  for (std::int64_t column = 0, panel_index = 0; column < k; column += packed::panel_columns, ++panel_index) {
    const int blocks = static_cast<int>(std::min<std::int64_t>(packed::panel_columns, k - column)) / packed::block_columns;
    for (int r = 0; r < count; ++r) {
      unpack_row(format.type, rows + (first + r) * row_stride + panel_index * panel_stride, blocks * packed::block_columns,
                 row);
      for (int i = 0; table != nullptr && i < packed::panel_columns; ++i) {
        row.codes[i] = (*table)[row.codes[i]];
      }
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
