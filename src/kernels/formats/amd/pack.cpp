#include "kernels/formats/amd/pack.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "kernels/formats/amd/weight_layout.h"
#include "kernels/formats/pack_tiles.h"
#include "tensor/quant/formats.h"

namespace rocmforge::amd {
namespace {

/// Where piece `piece` of a row of a record has its parts.
struct PiecePlace {
  std::uint8_t* codes;
  std::uint8_t* high;
  std::uint8_t* scales;
};

template <class Block>
inline constexpr WeightFormat format_of = weight_format(Block::dtype);

/// A scale for each 256 values of -1, 0 and 1: TQ1_0 and TQ2_0.
template <class Block>
constexpr bool is_ternary() {
  return Block::elems == record_elems && Block::group == record_elems;
}

/// Whether scales are 2 s + 1 with at most four bits of s.
constexpr bool has_scale_nibbles(WeightFormat format) { return format == WeightFormat::iq1_iq2; }

template <DType type>
inline constexpr bool is_iq1 = type == DType::iq1_s || type == DType::iq1_m;

// put_scales(block, element, to): for the piece that starts at element `element` of the file's block.
template <class Block>
void put_scales(const Block& block, [[maybe_unused]] int element, std::uint8_t* to) {
  if constexpr (is_ternary<Block>()) {
    to[0] = to[1] = 0x11;
  } else if constexpr (has_scale_nibbles(format_of<Block>)) {
    const auto code = [&](int at) { return block.scale_code(static_cast<unsigned>(at) / Block::group) / 2; };
    to[0] = static_cast<std::uint8_t>(code(element) | code(element + 16) << 4);
  } else {
    std::memcpy(to, &block.scale, 2);
    if constexpr (requires { block.minimum; }) {
      std::memcpy(to + 2, &block.minimum, 2);
    }
  }
}
void put_scales(const BlockMXFP4& block, int, std::uint8_t* to) { to[0] = block.exponent; }
void put_scales(const BlockNVFP4& block, int element, std::uint8_t* to) {
  for (int i = 0; i < 2; ++i) {
    const unsigned code = block.scales[element / 16 + i] & 127u;
    to[i] = static_cast<std::uint8_t>(nvfp4_half_scale(block.scales[element / 16 + i]) == 0.0f ? 0u : code);
  }
}
void put_scales(const BlockQ6_K& block, int element, std::uint8_t* to) { std::memcpy(to, block.scales + element / 16, 2); }
void put_scales(const BlockQ2_K& block, int element, std::uint8_t* to) { std::memcpy(to, block.scales + element / 16, 2); }
void put_scales(const BlockQ3_K& block, int element, std::uint8_t* to) {
  const auto group = static_cast<unsigned>(element / 16);
  to[0] = static_cast<std::uint8_t>(block.scale_code(group));
  to[1] = static_cast<std::uint8_t>(block.scale_code(group + 1));
}
void put_scales(const BlockIQ4_XS& block, int element, std::uint8_t* to) {
  to[0] = static_cast<std::uint8_t>(block.scale_code(static_cast<unsigned>(element / piece_elems)));
}
void put_scales(const BlockIQ3_XXS& block, int element, std::uint8_t* to) {
  to[0] = static_cast<std::uint8_t>(block.scale_code(static_cast<unsigned>(element / piece_elems)) | iq3_xxs_flag);
}
void put_scales(const BlockIQ3_S& block, int element, std::uint8_t* to) {
  to[0] = static_cast<std::uint8_t>(block.scale_code(static_cast<unsigned>(element / piece_elems)));
}
/// Of Q4_K and Q5_K.
template <class Block>
requires requires(Block block) { block.minimum_code(0); }
void put_scales(const Block& block, int element, std::uint8_t* to) {
  const auto group = static_cast<unsigned>(element / piece_elems);
  to[0] = static_cast<std::uint8_t>(block.scale_code(group));
  to[1] = static_cast<std::uint8_t>(block.minimum_code(group));
}

/// The row's super-block scales, in formats that have them.
template <class Block>
void put_super(const Block& block, std::uint8_t* to) {
  if constexpr (Block::elems == record_elems) {
    half scale = block_scale(block);
    if constexpr (format_of<Block> == WeightFormat::iq1_iq2) {  // the sign is in the codes
      scale.bits = static_cast<std::uint16_t>(scale.bits % iq1_flag | (is_iq1<Block::dtype> ? iq1_flag : 0));
    }
    std::memcpy(to, &scale, 2);
    if constexpr (requires { block.minimum_scale; }) {
      std::memcpy(to + 2, &block.minimum_scale, 2);
    } else if constexpr (is_ternary<Block>()) {
      std::memcpy(to + 2, &scale, 2);
    }
  }
}

/// Two bits of element `e` of a piece, in two words.
void put_two_bits(unsigned bits, int e, std::uint8_t* words) {
  std::uint8_t& byte = words[e / 16 * 4 + e % 4];
  byte = static_cast<std::uint8_t>(byte | bits << e % 16 / 4 * 2);
}

/// The code of an integer of a type whose blocks give these.
template <DType type>
std::uint8_t code_of_integer(int value) {
  const auto index = [](const auto& values, int of) { return std::ranges::find(values, of) - std::begin(values); };
  constexpr WeightFormat format = weight_format(type);
  if constexpr (format == WeightFormat::q2_k) {
    return static_cast<std::uint8_t>(value + 1);
  } else if constexpr (type == DType::iq3_s) {
    return static_cast<std::uint8_t>(index(iq3_values, 2 * value));
  } else if constexpr (type == DType::iq3_xxs) {  // 62 is the only value whose half is not in the table
    return static_cast<std::uint8_t>(index(iq3_values, value / 2 == 31 ? 30 : value / 2 == -31 ? -30 : value / 2));
  } else {
    return static_cast<std::uint8_t>(index(is_iq1<type> ? iq1_values : iq2_values, value));
  }
}

/// The codes of a block, one a byte, as weight_layout.h has them.
template <class Block>
void read_codes(const Block& block, std::uint8_t* codes) {
  if constexpr (DescribedBlock<Block>) {
    unpack_codes(block, codes, 0);
  } else {
    for (unsigned first = 0; first < Block::elems; first += 8) {
      const EightBytes integers = block.integers(first);
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned sign = format_of<Block> == WeightFormat::iq1_iq2 && block_scale(block).bits >= 0x8000 ? code_sign : 0;
        codes[first + i] = static_cast<std::uint8_t>(code_of_integer<Block::dtype>(signed_byte(integers, i)) ^ sign);
      }
    }
  }
}

/// The codes of a piece, one byte each, to its planes.
template <class Block>
void put_codes(const std::uint8_t* codes, const PiecePlace& to) {
  constexpr WeightLayout layout = weight_layout(format_of<Block>);
  constexpr int low_bits = layout.code_bytes / 4;
  if constexpr (low_bits == 8) {
    std::memcpy(to.codes, codes, 16);
    std::memcpy(to.codes + code_plane_bytes, codes + 16, 16);
    return;
  }
  for (int e = 0; e < piece_elems; ++e) {
    if constexpr (low_bits == 2) {
      put_two_bits(codes[e] & 3u, e, to.codes);
    } else if (e < 16) {
      to.codes[e] = static_cast<std::uint8_t>((codes[e] & 15) | codes[16 + e] << 4);
    }
    const unsigned high = static_cast<unsigned>(codes[e]) >> low_bits;
    if constexpr (layout.high_bytes == 4) {
      to.high[e % 4] = static_cast<std::uint8_t>(to.high[e % 4] | high << e / 4);
    } else if constexpr (layout.high_bytes == 8) {
      put_two_bits(high, e, to.high);
    }
  }
}

/// One row of a record of zeros; `columns` of it are in the file.
template <class Block>
void pack_row(const std::uint8_t* blocks, int columns, int row, std::uint8_t* record) {
  constexpr WeightLayout layout = weight_layout(format_of<Block>);
  constexpr int block_elems = static_cast<int>(Block::elems);
  for (int column = 0; column < columns; column += block_elems) {
    Block block;
    std::memcpy(&block, blocks + column / block_elems * static_cast<int>(sizeof(Block)), sizeof(Block));
    std::uint8_t codes[Block::elems];
    read_codes(block, codes);
    for (int element = 0; element < block_elems; element += piece_elems) {
      const int piece = row * record_pieces + (column + element) / piece_elems;
      // Q8_0's second plane lies behind the first one of all pieces.
      const PiecePlace place{record + std::min(layout.code_bytes, 16) * piece,
                             record + layout.high_offset + layout.high_bytes * piece,
                             record + layout.scale_offset + layout.scale_bytes * piece};
      put_codes<Block>(codes + element, place);
      put_scales(block, element, place.scales);
    }
    put_super(block, record + layout.super_offset + layout.super_bytes * row);
  }
}

}  // namespace

std::size_t packed_weight_bytes(DType type, std::int64_t n, std::int64_t k) {
  const WeightLayout layout = weight_layout(weight_format(type));
  return static_cast<std::size_t>(weight_tiles(n) * weight_tile_bytes(layout, k) + weight_room_bytes(layout));
}

void pack_tiles(DType type, const void* rows, std::int64_t n, std::int64_t k, std::int64_t begin, std::int64_t end,
                void* packed) {
  check(has_weight_layout(type), "a format that is not repacked");
  Formats::visit(type, [&]<class Block>(Block*) {
    if constexpr (has_weight_layout(Block::dtype)) {
      constexpr WeightLayout layout = weight_layout(format_of<Block>);
      gpu::pack_tiles<Block>(
          {weight_tile_rows, record_elems, layout.record_bytes, weight_tile_bytes(layout, k), weight_room_bytes(layout)},
          {static_cast<const std::uint8_t*>(rows), n, k}, begin, end, static_cast<std::uint8_t*>(packed), pack_row<Block>);
    }
  });
}

}  // namespace rocmforge::amd
