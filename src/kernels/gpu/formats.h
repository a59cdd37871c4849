#pragma once

// Reading quantised rows on the device, eight elements at a time.
//
// BlockReader<Block> knows one block format of tensor/quant:
//   read(block, first, out)   out[i] = element first + i of the block, i < run; first is a multiple of run.
//                             Bit for bit what tensor/quant's dequantize gives.
// and, where `has_codes`, the same eight elements before the arithmetic, for integer dot products:
//   codes(block, first)       CodeRun: element i is scale * (byte i of the codes - offset) - minimum, in that order and each
//                             step rounded; `offset` and `has_minimum` belong to the format
// read_run reads from a row, whatever the format; visit_format(Formats(), type, body) calls body with the block type. A
// format without a reader of its own goes through its `dequantize`.
//
// Rows start at 16-byte aligned addresses plus whole blocks, so that a block is aligned to what its size allows.

#include "kernels/gpu/device_code.h"
#include "tensor/quant/formats.h"

namespace rocmforge::gpu {

/// Elements that are read together.
inline constexpr int run = 8;

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

/// Eight bytes; byte i % 4 of words[i / 4] is number i.
struct EightBytes {
  std::uint32_t words[2];
};

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
__device__ inline EightBytes bit_field(EightBytes bytes, int shift, std::uint32_t mask) {
  return {{bytes.words[0] >> shift & mask * 0x01010101u, bytes.words[1] >> shift & mask * 0x01010101u}};
}

__device__ inline EightBytes operator|(EightBytes a, EightBytes b) {
  return {{a.words[0] | b.words[0], a.words[1] | b.words[1]}};
}

__device__ inline EightBytes operator<<(EightBytes bytes, int shift) {
  return {{bytes.words[0] << shift, bytes.words[1] << shift}};
}

/// Bit i of `bits` in byte i. The factor puts four copies 7 bits apart, which never meet.
__device__ inline EightBytes bits_to_bytes(std::uint32_t bits) {
  return {{(bits & 15u) * 0x00204081u & 0x01010101u, (bits >> 4 & 15u) * 0x00204081u & 0x01010101u}};
}

/// Sixteen bytes for a look-up in registers: entry i is values[i] + offset.
struct ByteTable {
  std::uint32_t words[4];
};

constexpr ByteTable make_byte_table(const std::int8_t (&values)[16], int offset) {
  ByteTable table{};
  for (int i = 0; i < 16; ++i) {
    table.words[i / 4] |= static_cast<std::uint32_t>(values[i] + offset) << 8 * (i % 4);
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

/// Eight elements of a block: scale * (code - offset) - minimum.
struct CodeRun {
  EightBytes codes;
  float scale = 0.0f;
  float minimum = 0.0f;
};

/// Formats without codes(): the whole block, of which eight are kept.
template <class Block>
struct BlockReader {
  static constexpr bool has_codes = false;
  __device__ static void read(const Block& block, int first, float (&out)[run]) {
    static_assert(Block::elems % run == 0);
    float values[Block::elems];
    dequantize(block, values);
#pragma unroll
    for (int i = 0; i < run; ++i) {
      out[i] = values[first + i];
    }
  }
};

/// What formats with codes share. `Reader` has codes(), offset and has_minimum.
template <class Block, class Reader>
struct CodeReader {
  static constexpr bool has_codes = true;
  __device__ static void read(const Block& block, int first, float (&out)[run]) {
    const CodeRun values = Reader::codes(block, first);
#pragma unroll
    for (int i = 0; i < run; ++i) {
      const int code = static_cast<int>(values.codes.words[i / 4] >> 8 * (i % 4) & 0xffu);
      const auto whole = static_cast<float>(code - Reader::offset);
      out[i] = Reader::has_minimum ? rounded_product_minus(values.scale, whole, values.minimum)
                                   : rounded_product(values.scale, whole);
    }
  }
};

/// Nibbles of the 32-element formats: byte j holds elements j and j + 16.
template <int alignment>
__device__ inline EightBytes load_nibbles(const std::uint8_t* quants, int first) {
  return bit_field(load_eight<alignment>(quants + first % 16), first < 16 ? 0 : 4, 15);
}

template <>
struct BlockReader<BlockQ4_0> : CodeReader<BlockQ4_0, BlockReader<BlockQ4_0>> {
  static constexpr int offset = 8;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockQ4_0& block, int first) {
    return {load_nibbles<member_alignment<BlockQ4_0>(2)>(block.quants, first), to_float(block.scale)};
  }
};

template <>
struct BlockReader<BlockQ4_1> : CodeReader<BlockQ4_1, BlockReader<BlockQ4_1>> {
  static constexpr int offset = 0;
  static constexpr bool has_minimum = true;
  __device__ static CodeRun codes(const BlockQ4_1& block, int first) {
    return {load_nibbles<member_alignment<BlockQ4_1>(4)>(block.quants, first), to_float(block.scale),
            -to_float(block.minimum)};
  }
};

template <>
struct BlockReader<BlockQ5_0> : CodeReader<BlockQ5_0, BlockReader<BlockQ5_0>> {
  static constexpr int offset = 16;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockQ5_0& block, int first) {
    return {load_nibbles<member_alignment<BlockQ5_0>(6)>(block.quants, first) | bits_to_bytes(block.high_bits[first / 8])
                                                                                    << 4,
            to_float(block.scale)};
  }
};

template <>
struct BlockReader<BlockQ5_1> : CodeReader<BlockQ5_1, BlockReader<BlockQ5_1>> {
  static constexpr int offset = 0;
  static constexpr bool has_minimum = true;
  __device__ static CodeRun codes(const BlockQ5_1& block, int first) {
    return {load_nibbles<member_alignment<BlockQ5_1>(8)>(block.quants, first) | bits_to_bytes(block.high_bits[first / 8])
                                                                                    << 4,
            to_float(block.scale), -to_float(block.minimum)};
  }
};

template <>
struct BlockReader<BlockQ8_0> : CodeReader<BlockQ8_0, BlockReader<BlockQ8_0>> {
  static constexpr int offset = 128;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockQ8_0& block, int first) {
    EightBytes codes = load_eight<member_alignment<BlockQ8_0>(2)>(block.quants + first);
    codes.words[0] ^= 0x80808080u;
    codes.words[1] ^= 0x80808080u;
    return {codes, to_float(block.scale)};
  }
};

template <>
struct BlockReader<BlockIQ4_NL> : CodeReader<BlockIQ4_NL, BlockReader<BlockIQ4_NL>> {
  static constexpr int offset = 128;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockIQ4_NL& block, int first) {
    constexpr ByteTable table = make_byte_table(iq4_values, offset);
    return {look_up(table, load_nibbles<member_alignment<BlockIQ4_NL>(2)>(block.quants, first)), to_float(block.scale)};
  }
};

template <>
struct BlockReader<BlockMXFP4> : CodeReader<BlockMXFP4, BlockReader<BlockMXFP4>> {
  static constexpr int offset = 12;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockMXFP4& block, int first) {
    constexpr ByteTable table = make_byte_table(mxfp4_values, offset);
    return {look_up(table, load_nibbles<1>(block.quants, first)), mxfp4_half_scale(block.exponent)};
  }
};

template <>
struct BlockReader<BlockIQ4_XS> : CodeReader<BlockIQ4_XS, BlockReader<BlockIQ4_XS>> {
  static constexpr int offset = 128;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockIQ4_XS& block, int first) {
    constexpr ByteTable table = make_byte_table(iq4_values, offset);
    const int k = first / 32;
    const unsigned low = block.scales_low[k / 2] >> 4 * (k % 2) & 15u;
    const unsigned high = block.scales_high >> 2 * k & 3u;
    const int scale = static_cast<int>(low | high << 4) - 32;
    return {look_up(table, load_nibbles<member_alignment<BlockIQ4_XS>(8)>(block.quants + 16 * k, first % 32)),
            rounded_product(to_float(block.scale), static_cast<float>(scale))};
  }
};

template <>
struct BlockReader<BlockQ2_K> : CodeReader<BlockQ2_K, BlockReader<BlockQ2_K>> {
  static constexpr int offset = 0;
  static constexpr bool has_minimum = true;
  __device__ static CodeRun codes(const BlockQ2_K& block, int first) {
    const unsigned scale = block.scales[first / 16];
    return {bit_field(load_eight<member_alignment<BlockQ2_K>(16)>(block.quants + 32 * (first / 128) + first % 32),
                      first % 128 / 32 * 2, 3),
            rounded_product(to_float(block.scale), static_cast<float>(scale & 15u)),
            rounded_product(to_float(block.minimum_scale), static_cast<float>(scale >> 4))};
  }
};

template <>
struct BlockReader<BlockQ3_K> : CodeReader<BlockQ3_K, BlockReader<BlockQ3_K>> {
  static constexpr int offset = 4;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockQ3_K& block, int first) {
    const int s = first / 16;
    const unsigned low = block.scales[s % 8] >> 4 * (s / 8) & 15u;
    const unsigned high = block.scales[8 + s % 4] >> 2 * (s / 4) & 3u;
    const int scale = static_cast<int>(low | high << 4) - 32;
    const auto quants = load_eight<member_alignment<BlockQ3_K>(32)>(block.quants + 32 * (first / 128) + first % 32);
    const auto high_bits = load_eight<member_alignment<BlockQ3_K>(0)>(block.high_bits + first % 32);
    return {bit_field(quants, first % 128 / 32 * 2, 3) | bit_field(high_bits, first / 32, 1) << 2,
            rounded_product(to_float(block.scale), static_cast<float>(scale))};
  }
};

/// Scale and minimum of sub-block k of Q4_K and Q5_K, see unpack_scales_k4.
__device__ inline void scale_and_minimum(half scale, half minimum_scale, const std::uint8_t (&packed)[12], int k,
                                         CodeRun& values) {
  const unsigned own = packed[k < 4 ? k : k - 4];
  const unsigned next = packed[k < 4 ? k + 4 : k];
  const unsigned last = packed[k < 4 ? k : k + 4];
  const unsigned scale_code = k < 4 ? own & 63u : (last & 15u) | (own >> 6) << 4;
  const unsigned minimum_code = k < 4 ? next & 63u : last >> 4 | (next >> 6) << 4;
  values.scale = rounded_product(to_float(scale), static_cast<float>(scale_code));
  values.minimum = rounded_product(to_float(minimum_scale), static_cast<float>(minimum_code));
}

template <>
struct BlockReader<BlockQ4_K> : CodeReader<BlockQ4_K, BlockReader<BlockQ4_K>> {
  static constexpr int offset = 0;
  static constexpr bool has_minimum = true;
  __device__ static CodeRun codes(const BlockQ4_K& block, int first) {
    CodeRun values;
    const int k = first / 32;
    const auto quants = load_eight<member_alignment<BlockQ4_K>(16)>(block.quants + 32 * (k / 2) + first % 32);
    values.codes = bit_field(quants, 4 * (k % 2), 15);
    scale_and_minimum(block.scale, block.minimum_scale, block.scales, k, values);
    return values;
  }
};

template <>
struct BlockReader<BlockQ5_K> : CodeReader<BlockQ5_K, BlockReader<BlockQ5_K>> {
  static constexpr int offset = 0;
  static constexpr bool has_minimum = true;
  __device__ static CodeRun codes(const BlockQ5_K& block, int first) {
    CodeRun values;
    const int k = first / 32;
    const auto quants = load_eight<member_alignment<BlockQ5_K>(48)>(block.quants + 32 * (k / 2) + first % 32);
    const auto high_bits = load_eight<member_alignment<BlockQ5_K>(16)>(block.high_bits + first % 32);
    values.codes = bit_field(quants, 4 * (k % 2), 15) | bit_field(high_bits, k, 1) << 4;
    scale_and_minimum(block.scale, block.minimum_scale, block.scales, k, values);
    return values;
  }
};

template <>
struct BlockReader<BlockQ6_K> : CodeReader<BlockQ6_K, BlockReader<BlockQ6_K>> {
  static constexpr int offset = 32;
  static constexpr bool has_minimum = false;
  __device__ static CodeRun codes(const BlockQ6_K& block, int first) {
    const int half_block = first / 128;
    const int group = first % 128 / 32;
    const auto low_bits =
        load_eight<member_alignment<BlockQ6_K>(0)>(block.low_bits + 64 * half_block + 32 * (group % 2) + first % 32);
    const auto high_bits = load_eight<member_alignment<BlockQ6_K>(128)>(block.high_bits + 32 * half_block + first % 32);
    return {bit_field(low_bits, 4 * (group / 2), 15) | bit_field(high_bits, 2 * group, 3) << 4,
            rounded_product(to_float(block.scale), static_cast<float>(block.scales[first / 16]))};
  }
};

// Formats without blocks: any number of elements in a row, so rows are aligned to an element only.
__device__ inline float read_element(const BlockF32* row, std::int64_t i) { return row[i].value; }
__device__ inline float read_element(const BlockF16* row, std::int64_t i) { return to_float(row[i].value); }
__device__ inline float read_element(const BlockBF16* row, std::int64_t i) { return to_float(row[i].value); }

template <class Block>
__device__ inline bool is_aligned(const Block* address, unsigned alignment) {
  return (reinterpret_cast<std::uintptr_t>(address) & (alignment - 1)) == 0;
}

/// Loaded as a whole.
template <class Block>
struct alignas(16) AlignedRun {
  Block elements[run];
};

/// out[i] = element first + i of `row`, i < run; first is a multiple of run. Formats without blocks give 0 from element
/// `count` of the row on; the others have whole blocks.
template <class Block>
__device__ inline void read_run(const Block* row, std::int64_t first, std::int64_t count, float (&out)[run]) {
  if constexpr (Block::elems > 1) {
    BlockReader<Block>::read(row[first / Block::elems], static_cast<int>(first % Block::elems), out);
  } else {
    const Block* from = row + first;
    if (first + run <= count && is_aligned(from, 16)) {
      const auto loaded = *reinterpret_cast<const AlignedRun<Block>*>(from);
#pragma unroll
      for (int i = 0; i < run; ++i) {
        out[i] = read_element(loaded.elements, i);
      }
    } else {
#pragma unroll
      for (int i = 0; i < run; ++i) {
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
