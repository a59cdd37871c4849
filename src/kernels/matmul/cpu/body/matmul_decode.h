#pragma once

#include <cstdint>

#include "kernels/formats/cpu/matmul_layout.h"
#include "kernels/tile/cpu/matmul_simd.h"

/// From a packed block (matmul_layout.h) to codes and scales in registers. One-row and many-row products both read weights
/// through here, which is what makes their results the same bits.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// The table that codes index, its offset added.
struct CodeTable {
  std::uint8_t entries[16];
};
constexpr CodeTable code_table(const PackedFormat& format) {
  CodeTable table{};
  for (int i = 0; i < 16; ++i) {
    table.entries[i] = static_cast<std::uint8_t>(packed::values_of(format.codes)[i] + (1 << format.offset_shift));
  }
  return table;
}
template <PackedFormat format>
constexpr CodeTable code_table_of = code_table(format);

/// Codes of this format need all 8 bits.
constexpr bool is_wide(const PackedFormat& format) { return format.offset_shift == 7; }
/// Codes leave decode_codes() as signed bytes, their offset of 128 taken off.
constexpr bool is_signed(const PackedFormat& format) { return is_wide(format) && !wide_codes_unsigned; }
constexpr bool has_half_scales(const PackedFormat& format) {
  return format.scales == ScaleForm::signed_bytes || format.scales == ScaleForm::nibbles ||
         format.scales == ScaleForm::half_pair;
}
/// The scales of blocks or of their halves are integers, which the instruction set multiplies as such.
constexpr bool has_integer_scales(const PackedFormat& format) {
  return integer_scales && (format.scales == ScaleForm::signed_bytes || format.scales == ScaleForm::nibbles ||
                            format.scales == ScaleForm::byte_and_minimum);
}
/// So the integers of a block's halves join.
constexpr bool joins_half_scales(const PackedFormat& format) {
  return has_integer_scales(format) && has_half_scales(format);
}
constexpr bool has_addends(const PackedFormat& format) { return format.offset_shift < 0; }

/// value = scale * (code - offset) + addend; the second entries are for the columns from 16 where halves differ.
/// Integer scales are in `multiplier`; what they are multiples of is the panel's.
struct BlockScales {
  Floats scale[2];
  Floats addend[2];
  Ints multiplier[2];
};

struct PanelHead {
  Floats d;
  Floats minus_dmin;
};

template <PackedFormat format>
inline PanelHead decode_head(const std::uint8_t* panel) {
  PanelHead head{};
  if constexpr (packed::head_bytes(format) > 0) {
    head.d = load_halves(panel);
    if constexpr (format.scale_shift > 0) {
      head.d = multiply(head.d, broadcast(1.0f / static_cast<float>(1 << format.scale_shift)));
    }
  }
  if constexpr (packed::head_bytes(format) > 32) {
    head.minus_dmin = negate(load_halves(panel + 32));
    if constexpr (format.minimum_shift > 0) {
      head.minus_dmin = multiply(head.minus_dmin, broadcast(1.0f / static_cast<float>(1 << format.minimum_shift)));
    }
  }
  return head;
}

template <PackedFormat format>
inline const std::uint8_t* scales_of_block(const std::uint8_t* panel, int block) {
  return panel + packed::head_bytes(format) + block * packed::scale_bytes(format);
}

/// The integer scale of a block or one of its halves, given where the block's scales are.
template <PackedFormat format, int half>
inline Ints decode_multiplier(const std::uint8_t* at) {
  constexpr MultiplierForm form = format.scales == ScaleForm::byte_and_minimum ? MultiplierForm::unsigned_byte
                                  : format.scales == ScaleForm::signed_bytes   ? MultiplierForm::signed_byte
                                                                               : MultiplierForm::low_nibble;
  return load_multipliers<form>(at + 16 * half);
}

template <PackedFormat format, int half>
inline Floats decode_addend(const PanelHead& head, const std::uint8_t* at) {
  if constexpr (format.scales == ScaleForm::half_and_addend) {
    return load_halves(at + 32);
  } else if constexpr (format.scales == ScaleForm::byte_and_minimum) {
    return multiply(head.minus_dmin, load_unsigned_bytes(at + 16));
  } else {
    static_assert(format.scales == ScaleForm::nibbles);
    return multiply(head.minus_dmin, load_nibbles<4>(at + 16 * half));
  }
}

template <PackedFormat format>
inline BlockScales decode_scales(const PanelHead& head, const std::uint8_t* panel, int block) {
  const std::uint8_t* at = scales_of_block<format>(panel, block);
  BlockScales result{};
  if constexpr (has_integer_scales(format)) {
    result.multiplier[0] = decode_multiplier<format, 0>(at);
    if constexpr (has_half_scales(format)) {
      result.multiplier[1] = decode_multiplier<format, 1>(at);
    }
  } else if constexpr (format.scales == ScaleForm::half || format.scales == ScaleForm::half_and_addend) {
    result.scale[0] = load_halves(at);
  } else if constexpr (format.scales == ScaleForm::half_pair) {
    result.scale[0] = load_halves(at);
    result.scale[1] = load_halves(at + 32);
  } else if constexpr (format.scales == ScaleForm::byte_and_minimum) {
    result.scale[0] = multiply(head.d, load_unsigned_bytes(at));
  } else if constexpr (format.scales == ScaleForm::signed_byte) {
    result.scale[0] = multiply(head.d, load_signed_bytes(at));
  } else if constexpr (format.scales == ScaleForm::signed_bytes) {
    result.scale[0] = multiply(head.d, load_signed_bytes(at));
    result.scale[1] = multiply(head.d, load_signed_bytes(at + 16));
  } else if constexpr (format.scales == ScaleForm::nibbles) {
    result.scale[0] = multiply(head.d, load_nibbles<0>(at));
    result.scale[1] = multiply(head.d, load_nibbles<0>(at + 16));
  } else {
    static_assert(format.scales == ScaleForm::exponent);
    result.scale[0] = load_exponents(at);
  }
  if constexpr (has_addends(format)) {
    result.addend[0] = decode_addend<format, 0>(head, at);
    if constexpr (has_half_scales(format)) {
      result.addend[1] = decode_addend<format, 1>(head, at);
    }
  }
  return result;
}

/// The codes of columns 4 * i to 4 * i + 3 of 16 rows.
template <PackedFormat format, int i>
inline Bytes decode_codes(const std::uint8_t* block) {
  constexpr int low_bits = format.low_bits;
  Bytes codes = load_bytes(block + 64 * (i % low_bits));
  if constexpr (low_bits < 8) {
    codes = extract<i / low_bits * low_bits, (1 << low_bits) - 1>(codes);
  }
  if constexpr (format.high_bits > 0) {
    constexpr int high_bits = format.high_bits;
    const Bytes high = load_bytes(block + packed::low_bytes(format) + 64 * (i % high_bits));
    codes = insert<i / high_bits * high_bits, low_bits, ((1 << high_bits) - 1) << low_bits>(codes, high);
  }
  if constexpr (format.codes != CodeForm::plain) {
    codes = look_up(code_table_of<format>.entries, codes);
  }
  if constexpr (is_signed(format)) {
    codes = flip_top_bits(codes);
  }
  return codes;
}

/// Calls body.operator()<i>() for each i of [begin, end).
template <int begin, int end, class Body>
inline void unrolled(const Body& body) {
  if constexpr (begin < end) {
    body.template operator()<begin>();
    unrolled<begin + 1, end>(body);
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
