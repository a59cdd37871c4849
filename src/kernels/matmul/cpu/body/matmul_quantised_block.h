#pragma once

#include <cstdint>

#include "kernels/matmul/cpu/body/matmul_decode.h"
#include "kernels/matmul/cpu/matmul_body.h"

/// Products of packed weights and 8-bit activations. For each row and token, and for each block b of 32 columns in rising
/// order:
///   sum += float(exact integer sum of (code - offset) * quant) * (scale_b * x_scale_b)    and  + addend_b * x_sum_b
/// (half blocks of 16 first add up their two scaled integers in floats). Where the instruction set multiplies with integer
/// scales, the blocks of a panel add up first, and join the sum behind its minima:
///   product += float(exact integer sum of scale_b * (code - offset) * quant) * x_scale_b,    sum += product * d
/// Both ways through a product, one token and many, keep to these operations.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// What the arithmetic needs to know of a format.
struct Kind {
  bool halves;
  bool scales_integers;  ///< sums of chains are multiplied with integer scales, of the block or of its halves
  bool addends;
  bool signed_codes;
  int offset_shift;
  int code_bits;  ///< of the codes that enter a chain of dot products, rounded up to a length that chain_steps knows
};

/// Products of few bits may be summed in 16 bits for a while; otherwise one length serves all formats.
constexpr int chain_bits(int bits) { return !narrow_chains ? 8 : bits < 4 ? 4 : bits; }

constexpr int unsigned_bits(const PackedFormat& format) {
  return format.codes == CodeForm::plain ? format.low_bits + format.high_bits : format.offset_shift + 1;
}

constexpr Kind kind_of(const PackedFormat& format) {
  return {has_half_scales(format), has_integer_scales(format), has_addends(format),
          is_signed(format),       format.offset_shift,        chain_bits(unsigned_bits(format))};
}

/// Offsets are made equal while unpacking, so that formats share tile functions. Where the length of a chain depends on the
/// codes, only those of formats with integer scales of halves and codes of up to 6 bits are.
constexpr int unpacked_offset_shift(const PackedFormat& format) {
  if (narrow_chains) {
    return joins_half_scales(format) && format.offset_shift < 5 ? 5 : format.offset_shift;
  }
  return wide_codes_unsigned ? 7 : 6;
}

constexpr Kind unpacked_kind(const PackedFormat& format) {
  if (has_addends(format) || is_signed(format)) {
    return {has_half_scales(format),          has_integer_scales(format), has_addends(format), is_signed(format), 0,
            chain_bits(unsigned_bits(format))};
  }
  const int shift = unpacked_offset_shift(format);
  return {has_half_scales(format), has_integer_scales(format), false, false, shift, chain_bits(shift + 1)};
}

/// Whether the integers of a block's halves are scaled separately.
constexpr bool keeps_halves(Kind kind) { return kind.halves && !kind.scales_integers; }

/// One token's activations in one panel.
struct PanelActivations {
  const std::int8_t* quants;
  const float* scales;
  const float* sums;
  const std::int32_t* negative_sums;
  const float* half_sums;
  const std::int32_t* negative_half_sums;
  const std::int16_t* wide_quants;
  const std::int16_t* half_pairs;
};

inline PanelActivations activations_at(const QuantisedActivations& all, std::int64_t tokens, std::int64_t panel,
                                       std::int64_t token) {
  const std::int64_t row = panel * tokens + token;
  return {all.quants + row * packed::panel_columns,
          all.scales + row * packed::panel_blocks,
          all.sums + row * packed::panel_blocks,
          all.negative_sums + row * packed::panel_blocks,
          all.half_sums + row * 2 * packed::panel_blocks,
          all.negative_half_sums + row * 2 * packed::panel_blocks,
          wide_activations ? all.wide_quants + row * packed::panel_columns : nullptr,
          wide_activations ? all.half_pairs + row * 2 * packed::panel_blocks : nullptr};
}

/// The integer that the codes' offset adds to the sum of block `b` (or of half block `b`) of the token `t` of a tile.
template <Kind kind>
inline Ints offset_term(const PanelActivations& x, int t, int b, [[maybe_unused]] const Ints (&multiplier)[2]) {
  if constexpr (kind.addends || kind.signed_codes) {
    return zero_ints();
  } else if constexpr (kind.scales_integers) {
    static_assert(kind.halves);
    return scaled_offset<kind.offset_shift>(multiplier, x.half_pairs + (t * packed::panel_blocks + b) * 2);
  } else if constexpr (kind.halves) {
    return broadcast_shifted<kind.offset_shift>(x.negative_half_sums + t * 2 * packed::panel_blocks + b);
  } else {
    return broadcast_shifted<kind.offset_shift>(x.negative_sums + t * packed::panel_blocks + b);
  }
}

/// Adds the products of block `b` to a sum, given the integer sums of the block, or of its halves.
template <Kind kind>
inline Floats add_products_of_block(Floats sum, const Ints (&integers)[2], const Floats (&scale)[2],
                                    const PanelActivations& x, int t, int b) {
  const Floats x_scale = broadcast(x.scales[t * packed::panel_blocks + b]);
  if constexpr (kind.scales_integers) {
    return multiply_add(to_floats(integers[0]), x_scale, sum);
  } else if constexpr (kind.halves) {
    Floats scaled = multiply(to_floats(integers[0]), scale[0]);
    scaled = multiply_add(to_floats(integers[1]), scale[1], scaled);
    return multiply_add(scaled, x_scale, sum);
  } else {
    return multiply_add(to_floats(integers[0]), multiply(scale[0], x_scale), sum);
  }
}

/// Adds the minima of block `b`, or of its halves, times the sums of the activations.
template <Kind kind>
inline Floats add_minima_of_block(Floats sum, const Floats (&addend)[2], const PanelActivations& x, int t, int b) {
  if constexpr (kind.addends && kind.halves) {
    const float* half_sums = x.half_sums + t * 2 * packed::panel_blocks + 2 * b;
    sum = multiply_add(addend[0], broadcast(half_sums[0]), sum);
    sum = multiply_add(addend[1], broadcast(half_sums[1]), sum);
  } else if constexpr (kind.addends) {
    sum = multiply_add(addend[0], broadcast(x.sums[t * packed::panel_blocks + b]), sum);
  }
  return sum;
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
