#include "kernels/formats/amd/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "kernels/formats/amd/weight_layout.h"
#include "kernels/formats/pack_tiles.h"
#include "tensor/quant/nvfp4.h"

namespace rocmforge::amd {
namespace {

/// Where a piece of a record has its codes.
struct PiecePlace {
  std::uint8_t* codes;
  std::uint8_t* high;
};

constexpr bool is_iq1(DType type) { return type == DType::iq1_s || type == DType::iq1_m; }

/// The scales of piece `piece` of a row.
void put_scales(DType type, WeightScales kind, const UnpackedRow& row, int piece, std::uint8_t* to) {
  const UnpackedRow::Strip& first = row.strips[2 * piece];
  const UnpackedRow::Strip& second = row.strips[2 * piece + 1];
  switch (kind) {
    case WeightScales::half_and_minimum:
      std::memcpy(to + 2, &first.minimum, 2);
      [[fallthrough]];
    case WeightScales::half:
      std::memcpy(to, &first.scale, 2);
      break;
    case WeightScales::exponent:
      to[0] = first.scale_code;
      break;
    case WeightScales::e4m3:
      for (int i = 0; i < 2; ++i) {
        const std::uint8_t code = row.strips[2 * piece + i].scale_code;
        to[i] = static_cast<std::uint8_t>(nvfp4_half_scale(code) == 0.0f ? 0u : code & 127u);
      }
      break;
    case WeightScales::code:
      to[0] = static_cast<std::uint8_t>(first.scale_code | (type == DType::iq3_xxs ? iq3_xxs_flag : 0));
      break;
    case WeightScales::code_of_strip:
      to[0] = first.scale_code;
      to[1] = second.scale_code;
      break;
    case WeightScales::code_and_minimum:
      to[0] = first.scale_code;
      to[1] = first.minimum_code;
      break;
    case WeightScales::nibbles_of_strip:
      to[0] = static_cast<std::uint8_t>(first.scale_code | first.minimum_code << 4);
      to[1] = static_cast<std::uint8_t>(second.scale_code | second.minimum_code << 4);
      break;
    case WeightScales::odd_of_strip:
      to[0] = static_cast<std::uint8_t>(first.scale_code / 2 | second.scale_code / 2 << 4);
      break;
  }
}

/// The scales of 256 columns of a row.
void put_super(DType type, WeightScales kind, const UnpackedRow& row, std::uint8_t* to) {
  half scale = row.scale;
  if (kind == WeightScales::odd_of_strip) {  // the sign is in the codes
    scale.bits = static_cast<std::uint16_t>(scale.bits % iq1_flag | (is_iq1(type) ? iq1_flag : 0));
  }
  std::memcpy(to, &scale, 2);
  if (subtracts_minimum(kind)) {
    std::memcpy(to + 2, &row.minimum, 2);
  }
}

/// Two bits of element `e` of a piece, in two words.
void put_two_bits(unsigned bits, int e, std::uint8_t* words) {
  std::uint8_t& byte = words[e / 16 * 4 + e % 4];
  byte = static_cast<std::uint8_t>(byte | bits << e % 16 / 4 * 2);
}

using CodeTable = std::array<std::uint8_t, 256>;

/// The code of each value of a table, by the low eight bits of that fraction of the value.
template <std::size_t count>
constexpr CodeTable codes_of(const std::int8_t (&values)[count], int numerator, int denominator) {
  CodeTable codes{};
  for (std::size_t i = count; i-- > 0;) {
    codes[static_cast<std::uint8_t>(values[i] * numerator / denominator)] = static_cast<std::uint8_t>(i);
  }
  return codes;
}

constexpr CodeTable iq1_codes = codes_of(iq1_values, 1, 1);
constexpr CodeTable iq2_codes = codes_of(iq2_values, 1, 1);
constexpr CodeTable iq3_s_codes = codes_of(iq3_values, 1, 2);
constexpr CodeTable iq3_xxs_codes = [] {  // 62 is the only value whose half is not in the table
  CodeTable codes = codes_of(iq3_values, 2, 1);
  codes[62] = codes[60];
  codes[static_cast<std::uint8_t>(-62)] = codes[static_cast<std::uint8_t>(-60)];
  return codes;
}();
constexpr CodeTable ternary_codes = codes_of({-1, 0, 1}, 1, 1);

/// The table of a type whose blocks give integers, else null.
const CodeTable* code_table(DType type) {
  switch (type) {
    case DType::tq1_0:
      return &ternary_codes;
    case DType::iq1_s:
    case DType::iq1_m:
      return &iq1_codes;
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
      return &iq2_codes;
    case DType::iq3_xxs:
      return &iq3_xxs_codes;
    case DType::iq3_s:
      return &iq3_s_codes;
    default:
      return nullptr;
  }
}

/// Makes the row's codes those of weight_layout.h.
void set_codes(DType type, const WeightTraits& traits, int columns, UnpackedRow& row) {
  if (const CodeTable* table = code_table(type)) {
    const bool negative = traits.scales == WeightScales::odd_of_strip && row.scale.bits >= 0x8000;
    const unsigned sign = negative ? code_sign : 0;
    for (int i = 0; i < columns; ++i) {
      row.codes[i] = static_cast<std::uint8_t>((*table)[row.codes[i]] ^ sign);
    }
  } else if (traits.code_bits == 8) {  // signed
    for (int i = 0; i < columns; ++i) {
      row.codes[i] ^= 0x80;
    }
  }
}

/// The codes of a piece, one byte each, to its planes.
template <int code_bits, int high_bits>
void put_codes(const std::uint8_t* codes, const PiecePlace& to) {
  if constexpr (code_bits == 8) {
    std::memcpy(to.codes, codes, 16);
    std::memcpy(to.codes + code_plane_bytes, codes + 16, 16);
    return;
  }
  for (int e = 0; e < piece_elems; ++e) {
    if constexpr (code_bits == 2) {
      put_two_bits(codes[e] & 3u, e, to.codes);
    } else if (e < 16) {
      to.codes[e] = static_cast<std::uint8_t>((codes[e] & 15) | codes[16 + e] << 4);
    }
    const unsigned high = static_cast<unsigned>(codes[e]) >> code_bits;
    if constexpr (high_bits == 1) {
      to.high[e % 4] = static_cast<std::uint8_t>(to.high[e % 4] | high << e / 4);
    } else if constexpr (high_bits == 2) {
      put_two_bits(high, e, to.high);
    }
  }
}

using PutCodes = void (*)(const std::uint8_t* codes, const PiecePlace& to);

PutCodes put_codes_of(const WeightTraits& traits) {
  if (traits.code_bits == 8) {
    return put_codes<8, 0>;
  }
  if (traits.code_bits == 2) {
    return traits.high_bits == 1 ? put_codes<2, 1> : put_codes<2, 0>;
  }
  return traits.high_bits == 2 ? put_codes<4, 2> : traits.high_bits == 1 ? put_codes<4, 1> : put_codes<4, 0>;
}

}  // namespace

std::size_t packed_weight_bytes(DType type, std::int64_t n, std::int64_t k) {
  const WeightLayout layout = weight_layout(weight_format(type));
  return static_cast<std::size_t>(weight_tiles(n) * weight_tile_bytes(layout, k) + weight_room_bytes(layout));
}

void pack_tiles(DType type, const void* rows, std::int64_t n, std::int64_t k, std::int64_t begin, std::int64_t end,
                void* packed) {
  check(has_weight_layout(type), "a format that is not repacked");
  const WeightTraits traits = weight_traits(weight_format(type));
  const WeightLayout layout = weight_layout(traits.format);
  const PutCodes put_piece = put_codes_of(traits);
  const auto put_row = [&](UnpackedRow& unpacked, int columns, int row, std::uint8_t* record) {
    set_codes(type, traits, columns, unpacked);
    for (int of_row = 0; of_row < columns / piece_elems; ++of_row) {
      const int piece = row * record_pieces + of_row;
      std::uint8_t* scales = record + layout.scale_offset + layout.scale_bytes * piece;
      // Q8_0's second plane lies behind the first one of all pieces.
      put_piece(unpacked.codes + of_row * piece_elems,
                {record + std::min(layout.code_bytes, 16) * piece, record + layout.high_offset + layout.high_bytes * piece});
      put_scales(type, traits.scales, unpacked, of_row, scales);
    }
    if (has_super_scale(traits.scales)) {
      put_super(type, traits.scales, unpacked, record + layout.super_offset + layout.super_bytes * row);
    }
  };
  gpu::pack_tiles(
      {weight_tile_rows, record_elems, layout.record_bytes, weight_tile_bytes(layout, k), weight_room_bytes(layout)},
      {type, static_cast<const std::uint8_t*>(rows), n, k}, begin, end, static_cast<std::uint8_t*>(packed), put_row);
}

}  // namespace rocmforge::amd
