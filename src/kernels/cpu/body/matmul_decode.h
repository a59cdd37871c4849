#pragma once

#include <cstdint>

#include "kernels/cpu/body/matmul_simd.h"
#include "kernels/cpu/matmul_layout.h"

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
/// The halves' scales are integers, which the instruction set multiplies as such.
constexpr bool joins_half_scales(const PackedFormat& format) {
  return integer_scales && has_half_scales(format) && format.scales != ScaleForm::half_pair;
}
constexpr bool has_addends(const PackedFormat& format) { return format.offset_shift < 0; }

/// value = scale * (code - offset) + addend; the second entries are for the columns from 16 where halves differ.
/// With integer_scales the halves' own integers are in `multiplier`, and scale[0] is what they are multiples of.
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
inline BlockScales decode_scales(const PanelHead& head, const std::uint8_t* panel, int block) {
  const std::uint8_t* at = panel + packed::head_bytes(format) + block * packed::scale_bytes(format);
  BlockScales result{};
  if constexpr (format.scales == ScaleForm::half) {
    result.scale[0] = load_halves(at);
  } else if constexpr (format.scales == ScaleForm::half_and_addend) {
    result.scale[0] = load_halves(at);
    result.addend[0] = load_halves(at + 32);
  } else if constexpr (format.scales == ScaleForm::half_pair) {
    result.scale[0] = load_halves(at);
    result.scale[1] = load_halves(at + 32);
  } else if constexpr (format.scales == ScaleForm::byte_and_minimum) {
    result.scale[0] = multiply(head.d, load_unsigned_bytes(at));
    result.addend[0] = multiply(head.minus_dmin, load_unsigned_bytes(at + 16));
  } else if constexpr (format.scales == ScaleForm::signed_byte) {
    result.scale[0] = multiply(head.d, load_signed_bytes(at));
  } else if constexpr (format.scales == ScaleForm::signed_bytes && integer_scales) {
    result.scale[0] = head.d;
    result.multiplier[0] = load_multipliers<true>(at);
    result.multiplier[1] = load_multipliers<true>(at + 16);
  } else if constexpr (format.scales == ScaleForm::signed_bytes) {
    result.scale[0] = multiply(head.d, load_signed_bytes(at));
    result.scale[1] = multiply(head.d, load_signed_bytes(at + 16));
  } else if constexpr (format.scales == ScaleForm::nibbles) {
    if constexpr (integer_scales) {
      result.scale[0] = head.d;
      result.multiplier[0] = load_multipliers<false>(at);
      result.multiplier[1] = load_multipliers<false>(at + 16);
    } else {
      result.scale[0] = multiply(head.d, load_nibbles<0>(at));
      result.scale[1] = multiply(head.d, load_nibbles<0>(at + 16));
    }
    result.addend[0] = multiply(head.minus_dmin, load_nibbles<4>(at));
    result.addend[1] = multiply(head.minus_dmin, load_nibbles<4>(at + 16));
  } else {
    static_assert(format.scales == ScaleForm::exponent);
    result.scale[0] = load_exponents(at);
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
