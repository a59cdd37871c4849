#pragma once

#include <cstdint>

#include "base/half.h"

/// The specifier of a table at namespace scope: nvcc lets device code read only variables that are declared with it.
#if defined(__NVCC__)
#define ROCMFORGE_TABLE __device__
#else
#define ROCMFORGE_TABLE inline
#endif

namespace rocmforge {

// The description of a quantised format, from which all code for the format is made. A block struct has the fields of the
// file in their order, and these members:
//   dtype, elems   its type, and the number of elements in a block
//   group          the number of elements that share a scale; element e belongs to group e / group
//   Low, High      the places of the bits of the codes: the low bits are in `quants`, further ones in `high_bits`
//   flip           bits of a code that the file stores inverted (the sign of signed bytes), so that codes are unsigned
//   offset         the code of zero
//   values         instead of an offset: the table that codes index
//   scale, minimum, minimum_scale (binary16), exponent: fields with these names
//   group_scale(g)  instead of these fields: the scale of group g, a number that binary16 can hold
//   scale_code(g), minimum_code(g)   the integers of group g that the fields `scale` and `minimum_scale` multiply
// Element e of group g has one of these values, without the parts that the format lacks:
//   (scale * scale_code(g)) * (code - offset) - (minimum_scale * minimum_code(g))
//   scale * (code - offset) + minimum
//   scale * values[code]
// The operations are done in this order, and each result is rounded.
//
// A format whose codes can't be described by planes (indices into a table of vectors, digits of base three) has instead:
//   integers(first)  elements first to first + 7 as signed bytes; first is a multiple of 8
//   unit             a power of two
//   joined_scale()   the scale when it is not a field, with set_scale(value)
// Its element e of group g is (scale * scale_code(g)) * integer * unit, which floats hold without rounding.
//
// `dequantize`, the packers (kernels/formats) and the readers of device code (kernels/formats/formats.h,
// matmul_decode.h) use this description. Functions are static because kernel bodies are compiled once per instruction set:
// the linker must not share one copy among them. They are constexpr so that GPU code may call them.

/// The place of bits of the codes of a block. `span_` neighbouring elements have theirs in as many neighbouring bytes, at
/// the same bit position; the next `span_` elements use the next bits of the same bytes, until these are full. This is a
/// type and not a constant, because device code would read the constant from memory.
template <unsigned bits_, unsigned span_>
struct CodePlane {
  static constexpr unsigned bits = bits_;  ///< of each code
  static constexpr unsigned span = span_;
  static constexpr unsigned mask = (1u << bits) - 1;

  // The place of an element's code. Unsigned, so that the divisions become shifts.
  static constexpr unsigned byte(unsigned elem) { return elem / (span * 8 / bits) * span + elem % span; }
  static constexpr unsigned shift(unsigned elem) { return elem % (span * 8 / bits) / span * bits; }
};

/// For formats whose codes have no bits in a second plane.
struct NoPlane {
  static constexpr unsigned bits = 0;
  static constexpr unsigned span = 1;
};

/// The defaults that most formats use.
struct QuantBlock {
  using High = NoPlane;
  static constexpr std::uint8_t flip = 0;
  static constexpr int offset = 0;
};

/// Eight bytes; byte i % 4 of words[i / 4] is number i.
struct EightBytes {
  std::uint32_t words[2];
};

/// A block whose codes are described by planes.
template <class Block>
concept DescribedBlock = requires {
  Block::Low::bits;
};

/// A block that returns its elements as integers, eight at a time.
template <class Block>
concept IntegerBlock = requires {
  Block::unit;
};

template <class Block>
inline constexpr bool has_table = requires {
  Block::values[0];
};

/// The number of elements whose codes are in neighbouring bytes of `quants` and, except for planes of span 1, of
/// `high_bits`.
template <class Block>
inline constexpr unsigned code_run = Block::Low::span < 16 ? Block::Low::span : 16;

/// Writes the codes of a block, one to a byte. With `flip` 0 they are as the file stores them.
template <DescribedBlock Block>
static constexpr void unpack_codes(const Block& block, std::uint8_t* codes, std::uint8_t flip = Block::flip) {
  using Low = typename Block::Low;
  using High = typename Block::High;
  constexpr unsigned run = code_run<Block>;
  for (unsigned first = 0; first < Block::elems; first += run) {
    const unsigned from = Low::byte(first);
    const unsigned shift = Low::shift(first);
    for (unsigned i = 0; i < run; ++i) {
      const unsigned byte = static_cast<std::uint8_t>(block.quants[from + i]);
      unsigned code = (byte >> shift & Low::mask) ^ flip;
      if constexpr (High::bits > 0 && High::span >= run) {
        code |= (block.high_bits[High::byte(first) + i] >> High::shift(first) & High::mask) << Low::bits;
      } else if constexpr (High::bits > 0) {
        code |= (block.high_bits[High::byte(first + i)] >> High::shift(first + i) & High::mask) << Low::bits;
      }
      codes[first + i] = static_cast<std::uint8_t>(code);
    }
  }
}

/// The scale of the whole block, which multiplies the scale codes of its groups.
template <class Block>
static constexpr half block_scale(const Block& block) {
  if constexpr (requires { block.joined_scale(); }) {
    return block.joined_scale();
  } else {
    return block.scale;
  }
}

/// Sets the scale that block_scale() returns.
template <class Block>
static constexpr void set_block_scale(Block& block, half value) {
  if constexpr (requires { block.joined_scale(); }) {
    block.set_scale(value);
  } else {
    block.scale = value;
  }
}

/// Whether block_scale() exists for this block.
template <class Block>
inline constexpr bool has_block_scale = requires(Block block) {
  block.scale;
}
|| requires(Block block) { block.joined_scale(); };

/// The factor of a group's values.
template <class Block>
static constexpr float scale_of(const Block& block, unsigned group) {
  if constexpr (requires { block.exponent; }) {
    return exponent_scale(block);
  } else if constexpr (requires { block.group_scale(group); }) {
    return block.group_scale(group);
  } else if constexpr (requires { block.scale_code(group); }) {
    return static_cast<float>(block_scale(block)) * static_cast<float>(block.scale_code(group));
  } else {
    return static_cast<float>(block_scale(block));
  }
}

template <class Block>
inline constexpr bool has_minimum = requires(Block block) {
  block.minimum;
}
|| requires(Block block) { block.minimum_scale; };

/// The number that is subtracted from a group's products.
template <DescribedBlock Block>
static constexpr float minimum_of(const Block& block, unsigned group) {
  if constexpr (requires { block.minimum; }) {
    return -static_cast<float>(block.minimum);
  } else {
    return static_cast<float>(block.minimum_scale) * static_cast<float>(block.minimum_code(group));
  }
}

template <DescribedBlock Block>
static constexpr void dequantize(const Block& block, float* out) {
  std::uint8_t codes[Block::elems] = {};
  unpack_codes(block, codes);
  for (unsigned group = 0; group < Block::elems / Block::group; ++group) {
    const float scale = scale_of(block, group);
    const std::uint8_t* of_group = codes + group * Block::group;
    float* values = out + group * Block::group;
    for (unsigned i = 0; i < Block::group; ++i) {
      if constexpr (has_table<Block>) {
        values[i] = scale * static_cast<float>(Block::values[of_group[i]]);
      } else {
        values[i] = scale * static_cast<float>(of_group[i] - Block::offset);
      }
    }
    if constexpr (has_minimum<Block>) {
      const float minimum = minimum_of(block, group);
      for (unsigned i = 0; i < Block::group; ++i) {
        values[i] -= minimum;
      }
    }
  }
}

/// Byte `i` of eight as a signed number.
static constexpr int signed_byte(const EightBytes& bytes, unsigned i) {
  return static_cast<std::int8_t>(bytes.words[i / 4] >> 8 * (i % 4) & 0xffu);
}

template <IntegerBlock Block>
static constexpr void dequantize(const Block& block, float* out) {
  for (unsigned first = 0; first < Block::elems; first += 8) {
    const EightBytes integers = block.integers(first);
    const float scale = scale_of(block, first / Block::group) * Block::unit;
    for (unsigned i = 0; i < 8; ++i) {
      out[first + i] = scale * static_cast<float>(signed_byte(integers, i));
    }
  }
}

/// Q4_K and Q5_K: the 6-bit scales and minima of the 8 groups, packed in 12 bytes. The first four scales are in the low six
/// bits of bytes 0-3, the first four minima in those of bytes 4-7. The last four of each have their low nibbles in bytes
/// 8-11 (scales in the low half, minima in the high half) and their top two bits in bytes 0-3 (scales) and 4-7 (minima).
static constexpr unsigned k4_scale(const std::uint8_t (&packed)[12], unsigned group) {
  const unsigned own = packed[group < 4 ? group : group - 4];
  const unsigned last = packed[group < 4 ? group : group + 4];
  return group < 4 ? own & 63u : (last & 15u) | (own >> 6) << 4;
}
static constexpr unsigned k4_minimum(const std::uint8_t (&packed)[12], unsigned group) {
  const unsigned own = packed[group < 4 ? group + 4 : group];
  const unsigned last = packed[group < 4 ? group : group + 4];
  return group < 4 ? own & 63u : last >> 4 | (own >> 6) << 4;
}

/// A signed 6-bit number from its low four bits and its high two bits. It is stored with an offset of 32.
static constexpr int signed_scale(unsigned low, unsigned high) {
  return static_cast<int>((low & 15u) | (high & 3u) << 4) - 32;
}

}  // namespace rocmforge
