#pragma once

// Reading quantised rows on the device, eight elements at a time, bit for bit what tensor/quant's dequantize gives:
// read_elements(row, first, ...) whatever the format; visit_format(Formats(), type, body) calls body with the block type.
//
// Rows start at 16-byte aligned addresses plus whole blocks, so that a block is aligned to what its size allows.

#include <cstddef>

#include "kernels/tile/device_code.h"
#include "tensor/quant/formats.h"

namespace rocmforge::gpu {

/// Elements that are read together.
inline constexpr int read_elems = 8;

// Products and differences that the compiler may not fuse: the host rounds each.
__device__ inline float rounded_product(float a, float b) {
#if ROCMFORGE_DEVICE_AMD
#pragma clang fp contract(off)
  return a * b;
#else
  return __fmul_rn(a, b);
#endif
}

__device__ inline float rounded_product_minus(float a, float b, float c) {
#if ROCMFORGE_DEVICE_AMD
#pragma clang fp contract(off)
  return a * b - c;
#else
  return __fsub_rn(__fmul_rn(a, b), c);
#endif
}

/// Eight bytes at an address aligned to `alignment`.
template <int alignment>
__device__ inline EightBytes load_eight(const void* from) {
  EightBytes result;
#if ROCMFORGE_DEVICE_AMD
  __builtin_memcpy(&result, __builtin_assume_aligned(from, alignment), sizeof result);  // loads need not be aligned
#else
  if constexpr (alignment >= 8) {
    const auto both = *static_cast<const uint2*>(from);
    result.words[0] = both.x;
    result.words[1] = both.y;
  } else if constexpr (alignment >= 4) {
    const auto* words = static_cast<const std::uint32_t*>(from);
    result.words[0] = words[0];
    result.words[1] = words[1];
  } else if constexpr (alignment >= 2) {
    const auto* halves = static_cast<const std::uint16_t*>(from);
    result.words[0] = halves[0] | static_cast<std::uint32_t>(halves[1]) << 16;
    result.words[1] = halves[2] | static_cast<std::uint32_t>(halves[3]) << 16;
  } else {
    const auto* bytes = static_cast<const std::uint8_t*>(from);
    const auto word = [&](int at) {
      return bytes[at] | static_cast<std::uint32_t>(bytes[at + 1]) << 8 | static_cast<std::uint32_t>(bytes[at + 2]) << 16 |
             static_cast<std::uint32_t>(bytes[at + 3]) << 24;
    };
    result.words[0] = word(0);
    result.words[1] = word(4);
  }
#endif
  return result;
}

/// The alignment of blocks that follow one another from a 16-byte boundary.
template <class Block>
inline constexpr int block_alignment = sizeof(Block) % 16 == 0  ? 16
                                       : sizeof(Block) % 8 == 0 ? 8
                                       : sizeof(Block) % 4 == 0 ? 4
                                       : sizeof(Block) % 2 == 0 ? 2
                                                                : 1;

/// Alignment of a member at byte `offset` (plus multiples of 8).
template <class Block>
__device__ constexpr int member_alignment(int offset) {
  int alignment = block_alignment<Block> < 8 ? block_alignment<Block> : 8;
  while (offset % alignment != 0) {
    alignment /= 2;
  }
  return alignment;
}

/// bits >> shift & mask in every byte.
__device__ inline EightBytes bit_field(EightBytes bytes, unsigned shift, std::uint32_t mask) {
  return {{bytes.words[0] >> shift & mask * 0x01010101u, bytes.words[1] >> shift & mask * 0x01010101u}};
}

__device__ inline EightBytes operator|(EightBytes a, EightBytes b) {
  return {{a.words[0] | b.words[0], a.words[1] | b.words[1]}};
}

__device__ inline EightBytes operator<<(EightBytes bytes, unsigned shift) {
  return {{bytes.words[0] << shift, bytes.words[1] << shift}};
}

/// Bit i of `bits` in byte i. The factor puts four copies 7 bits apart, which do not overlap.
__device__ inline EightBytes bits_to_bytes(std::uint32_t bits) {
  return {{(bits & 15u) * 0x00204081u & 0x01010101u, (bits >> 4 & 15u) * 0x00204081u & 0x01010101u}};
}

/// Sixteen bytes for a look-up in registers: entry i is values[i] + offset.
struct ByteTable {
  std::uint32_t words[4];
};

/// The offset that makes all values of a table non-negative bytes.
constexpr int table_offset(const std::int8_t (&values)[16]) {
  int least = 0;
  for (const std::int8_t value : values) {
    least = value < least ? value : least;
  }
  return -least;
}

/// The values of a format's codes, table_offset() added. A function of the format: nvcc warns of a device function that
/// names a member of a host type, though it reads it only while it compiles.
template <typename Block>
constexpr ByteTable code_table() {
  ByteTable table{};
  for (int i = 0; i < 16; ++i) {
    table.words[i / 4] |= static_cast<std::uint32_t>(Block::values[i] + table_offset(Block::values)) << 8 * (i % 4);
  }
  return table;
}

/// Of the eight bytes (low, high) those that `selectors` names, 0 to 7 in each byte.
__device__ inline std::uint32_t select_bytes(std::uint32_t high, std::uint32_t low, std::uint32_t selectors) {
#if ROCMFORGE_DEVICE_AMD
  return __builtin_amdgcn_perm(high, low, selectors);
#else
  const std::uint32_t pairs = (selectors | selectors >> 4) & 0x00ff00ffu;  // one selector in four bits
  return __byte_perm(low, high, pairs | pairs >> 8);
#endif
}

__device__ inline std::uint32_t look_up(const ByteTable& table, std::uint32_t codes) {
  const std::uint32_t selectors = codes & 0x07070707u;
  const std::uint32_t low = select_bytes(table.words[1], table.words[0], selectors);
  const std::uint32_t high = select_bytes(table.words[3], table.words[2], selectors);
  const std::uint32_t upper_half = (codes >> 3 & 0x01010101u) * 0xffu;
  return (low & ~upper_half) | (high & upper_half);
}

__device__ inline EightBytes look_up(const ByteTable& table, EightBytes codes) {
  return {{look_up(table, codes.words[0]), look_up(table, codes.words[1])}};
}

/// The codes of elements `first` to `first + 7` of a block; in place of those of a table its entries, `table_offset` added.
template <DescribedBlock Block>
__device__ inline EightBytes read_codes(const Block& block, unsigned first) {
  EightBytes codes = load_eight<member_alignment<Block>(offsetof(Block, quants))>(block.quants + Block::Low::byte(first));
  if constexpr (Block::Low::bits < 8) {
    codes = bit_field(codes, Block::Low::shift(first), Block::Low::mask);
  }
  if constexpr (Block::flip != 0) {
    codes.words[0] ^= Block::flip * 0x01010101u;
    codes.words[1] ^= Block::flip * 0x01010101u;
  }
  if constexpr (Block::High::bits > 0 && Block::High::span == 1) {
    static_assert(Block::High::bits == 1);
    codes = codes | bits_to_bytes(block.high_bits[first / 8]) << Block::Low::bits;
  } else if constexpr (Block::High::bits > 0) {
    const auto high =
        load_eight<member_alignment<Block>(offsetof(Block, high_bits))>(block.high_bits + Block::High::byte(first));
    codes = codes | bit_field(high, Block::High::shift(first), Block::High::mask) << Block::Low::bits;
  }
  if constexpr (has_table<Block>) {
    constexpr ByteTable table = code_table<Block>();
    codes = look_up(table, codes);
  }
  return codes;
}

/// scale_of() with the hardware's conversions.
template <class Block>
__device__ inline float device_scale(const Block& block, unsigned group) {
  if constexpr (requires { block.exponent; }) {
    return exponent_scale(block);
  } else if constexpr (requires { block.group_scale(group); }) {
    return block.group_scale(group);
  } else if constexpr (requires { block.scale_code(group); }) {
    return rounded_product(to_float(block_scale(block)), static_cast<float>(block.scale_code(group)));
  } else {
    return to_float(block_scale(block));
  }
}

/// What is added to the values of codes to make them bytes.
template <DescribedBlock Block>
constexpr int code_offset() {
  if constexpr (has_table<Block>) {
    return table_offset(Block::values);
  } else {
    return Block::offset;
  }
}

/// Elements `first` to `first + 7` of a block as signed bytes, without their scale.
template <DescribedBlock Block>
__device__ inline EightBytes read_integers(const Block& block, unsigned first) {
  static_assert(!has_minimum<Block> && code_offset<Block>() < 128);
  constexpr std::uint32_t to_middle = (128u - static_cast<unsigned>(code_offset<Block>())) * 0x01010101u;
  const EightBytes codes = read_codes(block, first);
  return {{(codes.words[0] + to_middle) ^ 0x80808080u, (codes.words[1] + to_middle) ^ 0x80808080u}};
}
template <IntegerBlock Block>
__device__ inline EightBytes read_integers(const Block& block, unsigned first) {
  return block.integers(first);
}

/// The factor of read_integers().
template <class Block>
__device__ inline float integer_scale(const Block& block, unsigned first) {
  const float scale = device_scale(block, Block::elems == Block::group ? 0 : first / Block::group);
  if constexpr (IntegerBlock<Block>) {
    return scale * Block::unit;
  } else {
    return scale;
  }
}

/// minimum_of() with the hardware's conversions.
template <DescribedBlock Block>
__device__ inline float device_minimum(const Block& block, unsigned group) {
  if constexpr (requires { block.minimum; }) {
    return -to_float(block.minimum);
  } else {
    return rounded_product(to_float(block.minimum_scale), static_cast<float>(block.minimum_code(group)));
  }
}

/// out[i] = element first + i of the block, i < read_elems; first is a multiple of read_elems.
template <DescribedBlock Block>
__device__ inline void read_eight(const Block& block, unsigned first, float (&out)[read_elems]) {
  constexpr int offset = code_offset<Block>();
  const EightBytes codes = read_codes(block, first);
  const unsigned group = Block::elems == Block::group ? 0 : first / Block::group;
  const float scale = device_scale(block, group);
  float minimum = 0.0f;
  if constexpr (has_minimum<Block>) {
    minimum = device_minimum(block, group);
  }
#pragma unroll
  for (int i = 0; i < read_elems; ++i) {
    const int code = static_cast<int>(codes.words[i / 4] >> 8 * (i % 4) & 0xffu);
    const auto whole = static_cast<float>(code - offset);
    out[i] = has_minimum<Block> ? rounded_product_minus(scale, whole, minimum) : rounded_product(scale, whole);
  }
}

template <IntegerBlock Block>
__device__ inline void read_eight(const Block& block, unsigned first, float (&out)[read_elems]) {
  const EightBytes integers = block.integers(first);
  const float scale = integer_scale(block, first);
#pragma unroll
  for (unsigned i = 0; i < read_elems; ++i) {
    out[i] = rounded_product(scale, static_cast<float>(signed_byte(integers, i)));
  }
}

// Formats without blocks: any number of elements in a row, so rows are aligned to an element only.
__device__ inline float read_element(const BlockF32* row, std::int64_t i) { return row[i].value; }
__device__ inline float read_element(const BlockF16* row, std::int64_t i) { return to_float(row[i].value); }
__device__ inline float read_element(const BlockBF16* row, std::int64_t i) { return to_float(row[i].value); }

template <class Block>
__device__ inline bool is_aligned(const Block* address, unsigned alignment) {
  return (reinterpret_cast<std::uintptr_t>(address) & (alignment - 1)) == 0;
}

/// Elements loaded as a whole.
template <class Block>
struct alignas(16) AlignedElements {
  Block elements[read_elems];
};

/// out[i] = element first + i of `row`, i < read_elems; first is a multiple of read_elems. Formats without blocks give 0
/// from element `count` of the row on; the others have whole blocks.
template <class Block>
__device__ inline void read_elements(const Block* row, std::int64_t first, std::int64_t count, float (&out)[read_elems]) {
  if constexpr (Block::elems > 1) {
    read_eight(row[first / Block::elems], static_cast<unsigned>(first % Block::elems), out);
  } else {
    const Block* from = row + first;
    if (first + read_elems <= count && is_aligned(from, 16)) {
      const auto loaded = *reinterpret_cast<const AlignedElements<Block>*>(from);
#pragma unroll
      for (int i = 0; i < read_elems; ++i) {
        out[i] = read_element(loaded.elements, i);
      }
    } else {
#pragma unroll
      for (int i = 0; i < read_elems; ++i) {
        out[i] = first + i < count ? read_element(from, i) : 0.0f;
      }
    }
  }
}

/// Calls body(Block*) with a null pointer of the block type of `type`, inlined: what it captures stays in registers.
template <class Body, class... Blocks>
__device__ __forceinline__ void visit_format(FormatList<Blocks...>, DType type, const Body& body) {
  static_cast<void>(((Blocks::dtype == type && (body(static_cast<Blocks*>(nullptr)), true)) || ...));
}

}  // namespace rocmforge::gpu
