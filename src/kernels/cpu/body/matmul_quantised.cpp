#include "kernels/cpu/body/matmul_activations.h"
#include "kernels/cpu/body/matmul_decode.h"
#include "kernels/cpu/body/matmul_store.h"
#include "kernels/cpu/matmul_body.h"

/// Products of packed weights and 8-bit activations. For each row and token, and for each block b of 32 columns in rising
/// order:
///   sum += float(exact integer sum of (code - offset) * quant) * (scale_b * x_scale_b)    and  + addend_b * x_sum_b
/// (half blocks of 16 first add up their two scaled integers: in integers where the instruction set has integer_scales, else
/// in floats). Both ways through this file keep to these operations.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// What the arithmetic needs to know of a format.
struct Kind {
  bool halves;
  bool addends;
  bool signed_codes;
  int offset_shift;
  int code_bits;  ///< of the codes that enter a chain of dot products, rounded up to a length that chain_steps knows
};

/// Products of few bits may be summed in 16 bits for a while; otherwise one length serves all formats.
constexpr int chain_bits(int bits) { return !narrow_chains ? 8 : bits < 4 ? 4 : bits; }

constexpr int unsigned_bits(const PackedFormat& format) {
  return format.codes == CodeForm::iq4_table    ? 8
         : format.codes == CodeForm::e2m1_table ? 5
                                                : format.low_bits + format.high_bits;
}

constexpr Kind kind_of(const PackedFormat& format) {
  return {has_half_scales(format), has_addends(format), is_signed(format), format.offset_shift,
          chain_bits(unsigned_bits(format))};
}

/// Offsets are made equal while unpacking, so that formats share tile functions. Where the length of a chain depends on the
/// codes, only those of formats with half scales are.
constexpr int unpacked_offset_shift(const PackedFormat& format) {
  if (narrow_chains && !has_half_scales(format)) {
    return format.offset_shift;
  }
  return wide_codes_unsigned ? 7 : 5;
}

constexpr Kind unpacked_kind(const PackedFormat& format) {
  if (has_addends(format) || is_signed(format)) {
    return {has_half_scales(format), has_addends(format), is_signed(format), 0, chain_bits(unsigned_bits(format))};
  }
  const int shift = unpacked_offset_shift(format);
  return {has_half_scales(format), false, false, shift, chain_bits(shift + 1)};
}

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

/// The halves' integers are scaled and added as integers.
constexpr bool joins_halves(Kind kind) { return kind.halves && integer_scales; }

/// The integer that the codes' offset adds to the sum of block `b` (or of half block `b`) of the token `t` of a tile.
template <Kind kind>
inline Ints offset_term(const PanelActivations& x, int t, int b, [[maybe_unused]] const Ints (&multiplier)[2]) {
  if constexpr (kind.addends || kind.signed_codes) {
    return zero_ints();
  } else if constexpr (joins_halves(kind)) {
    return scaled_offset<kind.offset_shift>(multiplier, x.half_pairs + (t * packed::panel_blocks + b) * 2);
  } else if constexpr (kind.halves) {
    return broadcast_shifted<kind.offset_shift>(x.negative_half_sums + t * 2 * packed::panel_blocks + b);
  } else {
    return broadcast_shifted<kind.offset_shift>(x.negative_sums + t * packed::panel_blocks + b);
  }
}

/// Adds block `b` to a sum, given the integer sums of the block, or of its halves.
template <Kind kind>
inline Floats add_block(Floats sum, const Ints (&integers)[2], const Floats (&scale)[2], const Floats (&addend)[2],
                        const PanelActivations& x, int t, int b) {
  const Floats x_scale = broadcast(x.scales[t * packed::panel_blocks + b]);
  if constexpr (kind.halves && !joins_halves(kind)) {
    Floats scaled = multiply(to_floats(integers[0]), scale[0]);
    scaled = multiply_add(to_floats(integers[1]), scale[1], scaled);
    sum = multiply_add(scaled, x_scale, sum);
  } else {
    sum = multiply_add(to_floats(integers[0]), multiply(scale[0], x_scale), sum);
  }
  if constexpr (kind.addends && kind.halves) {
    const float* half_sums = x.half_sums + t * 2 * packed::panel_blocks + 2 * b;
    sum = multiply_add(addend[0], broadcast(half_sums[0]), sum);
    sum = multiply_add(addend[1], broadcast(half_sums[1]), sum);
  } else if constexpr (kind.addends) {
    sum = multiply_add(addend[0], broadcast(x.sums[t * packed::panel_blocks + b]), sum);
  }
  return sum;
}

// ---- one token: weights go from memory to registers once ----

/// How far ahead packed weights are asked for: a panel or two, past what the hardware fetches by itself across a page.
constexpr int prefetch_bytes = 4096;

/// The integers of one block of 16 rows: of the whole block, or of its halves.
template <PackedFormat format>
inline void block_integers(const std::uint8_t* codes_at, const BlockScales& scales, const PanelActivations& x, int b,
                           Ints (&integers)[2]) {
  constexpr Kind kind = kind_of(format);
  const std::int8_t* quants = x.quants + b * packed::block_columns;
  constexpr bool by_halves = kind.halves && !joins_halves(kind);
  integers[0] = offset_term<kind>(x, 0, by_halves ? 2 * b : b, scales.multiplier);
  if constexpr (narrow_chains && !kind.signed_codes) {
    constexpr int part_steps = kind.halves ? 4 : 8;
    constexpr int steps = chain_steps<kind.code_bits> < part_steps ? chain_steps<kind.code_bits> : part_steps;
    unrolled<0, 8 / steps>([&]<int chain>() {
      Chain sum = start_chain<kind.code_bits>(integers[0], decode_codes<format, chain * steps>(codes_at),
                                              load_quad(quants + 4 * chain * steps));
      unrolled<chain * steps + 1, (chain + 1) * steps>([&]<int i>() {
        sum = continue_chain<kind.code_bits>(sum, decode_codes<format, i>(codes_at), load_quad(quants + 4 * i));
      });
      if constexpr (joins_halves(kind)) {
        integers[0] = end_scaled_chain<kind.code_bits>(integers[0], sum, scales.multiplier[chain * steps / part_steps]);
      } else {
        integers[0] = end_chain<kind.code_bits>(integers[0], sum);
      }
    });
  } else {
    // Two chains of integer sums, for the halves of the block; exact, so it does not matter how they are joined.
    integers[1] = by_halves ? offset_term<kind>(x, 0, 2 * b + 1, scales.multiplier) : zero_ints();
    unrolled<0, 4>([&]<int i>() {
      integers[0] = dot<kind.signed_codes>(integers[0], decode_codes<format, i>(codes_at), load_quad(quants + 4 * i));
      integers[1] =
          dot<kind.signed_codes>(integers[1], decode_codes<format, i + 4>(codes_at), load_quad(quants + 16 + 4 * i));
    });
    if constexpr (!by_halves) {
      integers[0] = add(integers[0], integers[1]);
    }
  }
}

template <PackedFormat format>
inline Floats add_block_of_one(Floats sum, const PanelHead& head, const std::uint8_t* panel, const std::uint8_t* codes_at,
                               const PanelActivations& x, int b) {
  for (int line = 0; line < packed::code_bytes(format); line += 64) {
    prefetch(codes_at + prefetch_bytes + line);
  }
  const BlockScales scales = decode_scales<format>(head, panel, b);
  Ints integers[2];
  block_integers<format>(codes_at, scales, x, b, integers);
  return add_block<kind_of(format)>(sum, integers, scales.scale, scales.addend, x, 0, b);
}

template <PackedFormat format>
void multiply_one_token(const MatmulProduct& product, const MatmulPart& part, std::int64_t token) {
  const std::int64_t group_stride = packed::group_bytes(format, product.k);
  for (std::int64_t row = part.row_begin; row < part.row_end; row += packed::group_rows) {
    const std::uint8_t* panel = product.weight + row / packed::group_rows * group_stride;
    Floats sum = zero_floats();
    for (std::int64_t p = 0, column = 0; column < product.k; ++p, column += packed::panel_columns) {
      const PanelActivations x = activations_at(product.quantised, product.tokens, p, token);
      const std::int64_t left = (product.k - column) / packed::block_columns;
      const int blocks = static_cast<int>(left < packed::panel_blocks ? left : packed::panel_blocks);
      const PanelHead head = decode_head<format>(panel);
      const std::uint8_t* codes_at = panel + packed::code_offset(format, blocks);
      for (int b = 0; b < blocks; ++b, codes_at += packed::code_bytes(format)) {
        sum = add_block_of_one<format>(sum, head, panel, codes_at, x, b);
      }
      panel += packed::panel_bytes(format, blocks);
    }
    alignas(64) float sums[packed::group_rows];
    store_floats(sums, sum);
    store_rows(product, row, token, sums);
  }
}

// ---- many tokens: panels are unpacked to bytes once, then meet all tokens ----

/// Codes that don't fit a chain of 16-bit sums are unpacked to 16 bits, two columns a step.
constexpr bool unpacks_wide(Kind kind) { return wide_activations && kind.signed_codes; }
constexpr int steps_of(Kind kind) { return unpacks_wide(kind) ? 16 : 8; }

struct UnpackedPanel {
  alignas(64) std::uint8_t codes[packed::panel_blocks * (wide_activations ? 16 : 8) * 64];  ///< [block][step][64]
  alignas(64) float scale[packed::panel_blocks][2][packed::group_rows];
  alignas(64) float addend[packed::panel_blocks][2][packed::group_rows];
  Ints multiplier[packed::panel_blocks][2];
};

template <PackedFormat format>
void unpack_panel(const std::uint8_t* panel, int blocks, UnpackedPanel& result) {
  constexpr Kind kind = unpacked_kind(format);
  const PanelHead head = decode_head<format>(panel);
  const std::uint8_t* codes_at = panel + packed::code_offset(format, blocks);
  std::uint8_t* to = result.codes;
  for (int b = 0; b < blocks; ++b, codes_at += packed::code_bytes(format), to += steps_of(kind) * 64) {
    unrolled<0, 8>([&]<int i>() {
      const Bytes codes = decode_codes<format, i>(codes_at);
      if constexpr (unpacks_wide(kind)) {
        store_pairs<kind.code_bits>(to + i * 128, codes);
      } else if constexpr (kind.offset_shift == 0 || kind.offset_shift == format.offset_shift) {
        store_bytes(to + i * 64, codes);
      } else {
        store_bytes(to + i * 64, add_to_bytes<(1 << kind.offset_shift) - (1 << format.offset_shift)>(codes));
      }
    });
    const BlockScales scales = decode_scales<format>(head, panel, b);
    for (int half = 0; half < (kind.halves ? 2 : 1); ++half) {
      if (half == 0 || !joins_halves(kind)) {
        store_floats(result.scale[b][half], scales.scale[half]);
      }
      if constexpr (kind.addends) {
        store_floats(result.addend[b][half], scales.addend[half]);
      }
      if constexpr (joins_halves(kind)) {
        result.multiplier[b][half] = scales.multiplier[half];
      }
    }
  }
}

/// sums[t][g][row] += the products of one panel of `groups` row groups with `tokens` tokens.
template <Kind kind, int groups, int tokens>
void multiply_tile(const UnpackedPanel* panels, const PanelActivations& x, int blocks, float* sums) {
  constexpr int parts = kind.halves ? 2 : 1;
  constexpr int steps = steps_of(kind);
  constexpr int part_steps = steps / parts;
  constexpr int chain = chain_steps<kind.code_bits> < part_steps ? chain_steps<kind.code_bits> : part_steps;
  const std::int8_t* quants = unpacks_wide(kind) ? reinterpret_cast<const std::int8_t*>(x.wide_quants) : x.quants;
  Floats sum[tokens][groups];
  if constexpr (sums_stay_in_registers) {
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        sum[t][g] = load_floats(sums + (t * tile_groups + g) * packed::group_rows);
      }
    }
  }
  for (int b = 0; b < blocks; ++b) {
    Ints integers[tokens][groups][2];
#pragma GCC unroll 2
    for (int part = 0; part < parts; ++part) {
      const int to = joins_halves(kind) ? 0 : part;
      if (part == to) {
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
          for (int g = 0; g < groups; ++g) {
            integers[t][g][to] = offset_term<kind>(x, t, joins_halves(kind) ? b : parts * b + part, panels[g].multiplier[b]);
          }
        }
      }
#pragma GCC unroll 8
      for (int begin = part_steps * part; begin < part_steps * (part + 1); begin += chain) {
        Chain chains[tokens][groups];
#pragma GCC unroll 16
        for (int i = begin; i < begin + chain; ++i) {
          Bytes codes[groups];
#pragma GCC unroll 8
          for (int g = 0; g < groups; ++g) {
            codes[g] = load_bytes(panels[g].codes + (b * steps + i) * 64);
          }
#pragma GCC unroll 8
          for (int t = 0; t < tokens; ++t) {
            const Quad quad = load_quad(quants + (t * packed::panel_blocks + b) * steps * 4 + 4 * i);
#pragma GCC unroll 8
            for (int g = 0; g < groups; ++g) {
              chains[t][g] = i == begin ? start_chain<kind.code_bits>(integers[t][g][to], codes[g], quad)
                                        : continue_chain<kind.code_bits>(chains[t][g], codes[g], quad);
            }
          }
        }
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
          for (int g = 0; g < groups; ++g) {
            if constexpr (joins_halves(kind)) {
              integers[t][g][to] =
                  end_scaled_chain<kind.code_bits>(integers[t][g][to], chains[t][g], panels[g].multiplier[b][part]);
            } else {
              integers[t][g][to] = end_chain<kind.code_bits>(integers[t][g][to], chains[t][g]);
            }
          }
        }
      }
    }
    Floats scale[groups][2];
    Floats addend[groups][2];
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
#pragma GCC unroll 2
      for (int part = 0; part < parts; ++part) {
        if (part == 0 || !joins_halves(kind)) {
          scale[g][part] = load_floats(panels[g].scale[b][part]);
        }
        if constexpr (kind.addends) {
          addend[g][part] = load_floats(panels[g].addend[b][part]);
        }
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        float* at = sums + (t * tile_groups + g) * packed::group_rows;
        const Floats before = sums_stay_in_registers ? sum[t][g] : load_floats(at);
        sum[t][g] = add_block<kind>(before, integers[t][g], scale[g], addend[g], x, t, b);
        if constexpr (!sums_stay_in_registers) {
          store_floats(at, sum[t][g]);
        }
      }
    }
  }
  if constexpr (sums_stay_in_registers) {
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        store_floats(sums + (t * tile_groups + g) * packed::group_rows, sum[t][g]);
      }
    }
  }
}

/// Where a block has four chains, half the tokens leave registers for the integers that the chains end in.
constexpr int tokens_of_tile(Kind kind) { return narrow_chains && kind.code_bits == 6 ? tile_tokens / 2 : tile_tokens; }

/// Multiplies as many of `count` tokens as one tile takes, and returns how many those were.
template <Kind kind, int groups>
int multiply_some(int count, const UnpackedPanel* panels, const PanelActivations& x, int blocks, float* sums) {
  constexpr int most = tokens_of_tile(kind);
  if (count >= most) {
    multiply_tile<kind, groups, most>(panels, x, blocks, sums);
    return most;
  }
  if (count >= 2) {
    multiply_tile<kind, groups, 2>(panels, x, blocks, sums);
    return 2;
  }
  multiply_tile<kind, groups, 1>(panels, x, blocks, sums);
  return 1;
}

template <PackedFormat format>
void multiply_chunk(const MatmulProduct& product, std::int64_t row, int groups, std::int64_t token, int tokens) {
  constexpr Kind kind = unpacked_kind(format);
  const std::int64_t group_stride = packed::group_bytes(format, product.k);
  const std::uint8_t* panel = product.weight + row / packed::group_rows * group_stride;
  UnpackedPanel panels[tile_groups];
  alignas(64) float sums[chunk_tokens * tile_groups * packed::group_rows];
  for (int i = 0; i < tokens * tile_groups * packed::group_rows; ++i) {
    sums[i] = 0;
  }
  for (std::int64_t p = 0, column = 0; column < product.k; ++p, column += packed::panel_columns) {
    const std::int64_t left = (product.k - column) / packed::block_columns;
    const int blocks = static_cast<int>(left < packed::panel_blocks ? left : packed::panel_blocks);
    for (int g = 0; g < groups; ++g) {
      unpack_panel<format>(panel + g * group_stride, blocks, panels[g]);
      // The next panel comes from memory while this one is computed with.
      for (int line = 0; line < packed::panel_bytes(format, blocks); line += 64) {
        prefetch(panel + g * group_stride + packed::panel_bytes(format, blocks) + line);
      }
    }
    for (int t = 0; t < tokens;) {
      const PanelActivations x = activations_at(product.quantised, product.tokens, p, token + t);
      float* tile_sums = sums + t * tile_groups * packed::group_rows;
      int done = 0;
      if (groups == tile_groups) {
        done = multiply_some<kind, tile_groups>(tokens - t, panels, x, blocks, tile_sums);
      } else {
        for (int g = 0; g < groups; ++g) {
          done = multiply_some<kind, 1>(tokens - t, panels + g, x, blocks, tile_sums + g * packed::group_rows);
        }
      }
      t += done;
    }
    panel += packed::panel_bytes(format, blocks);
  }
  for (int t = 0; t < tokens; ++t) {
    for (int g = 0; g < groups; ++g) {
      store_rows(product, row + g * packed::group_rows, token + t, sums + (t * tile_groups + g) * packed::group_rows);
    }
  }
}

template <PackedFormat format>
void multiply_format(const MatmulProduct& product, const MatmulPart& part) {
  if (part.token_end - part.token_begin == 1) {
    return multiply_one_token<format>(product, part, part.token_begin);
  }
  constexpr int tile_rows = tile_groups * packed::group_rows;
  for (std::int64_t row = part.row_begin; row < part.row_end; row += tile_rows) {
    const std::int64_t rows = part.row_end - row < tile_rows ? part.row_end - row : tile_rows;
    const int groups = static_cast<int>((rows + packed::group_rows - 1) / packed::group_rows);
    for (std::int64_t token = part.token_begin; token < part.token_end; token += chunk_tokens) {
      const std::int64_t left = part.token_end - token;
      multiply_chunk<format>(product, row, groups, token, static_cast<int>(left < chunk_tokens ? left : chunk_tokens));
    }
  }
}

template <int index = 0>
void multiply_quantised(const MatmulProduct& product, const MatmulPart& part) {
  if constexpr (index < static_cast<int>(sizeof packed::formats / sizeof packed::formats[0])) {
    if (packed::formats[index].type == product.dtype) {
      return multiply_format<packed::formats[index]>(product, part);
    }
    multiply_quantised<index + 1>(product, part);
  }
}

}  // namespace

extern const QuantisedBody quantised_body;
const QuantisedBody quantised_body = {quantise, multiply_quantised<>, tile_groups* packed::group_rows, tile_tokens,
                                      wide_activations};

}  // namespace rocmforge::ROCMFORGE_ISA
