#pragma once

#include <cstdint>

#include "kernels/cpu/body/matmul_decode.h"
#include "kernels/cpu/matmul_body.h"

/// Products of packed weights and 8-bit activations. For each row and token, and for each block b of 32 columns in rising
/// order:
///   sum += float(exact integer sum of (code - offset) * quant) * (scale_b * x_scale_b)    and  + addend_b * x_sum_b
/// (half blocks of 16 first add up their two scaled integers). Both ways through this file keep to these operations.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// What the arithmetic needs to know of a format.
struct Kind {
  bool halves;
  bool addends;
  bool signed_codes;
  int offset_shift;
};

/// One token's activations in one panel.
struct PanelActivations {
  const std::int8_t* quants;
  const float* scales;
  const float* sums;
  const std::int32_t* negative_sums;
  const float* half_sums;
  const std::int32_t* negative_half_sums;
};

inline PanelActivations activations_at(const QuantisedActivations& all, std::int64_t tokens, std::int64_t panel,
                                       std::int64_t token) {
  const std::int64_t row = panel * tokens + token;
  return {all.quants + row * packed::panel_columns,       all.scales + row * packed::panel_blocks,
          all.sums + row * packed::panel_blocks,          all.negative_sums + row * packed::panel_blocks,
          all.half_sums + row * 2 * packed::panel_blocks, all.negative_half_sums + row * 2 * packed::panel_blocks};
}

/// The integer that the codes' offset adds to the sum of block `b` (or of half block `b`) of the token `t` of a tile.
template <Kind kind>
inline Ints offset_term(const PanelActivations& x, int t, int b) {
  if constexpr (kind.addends || kind.signed_codes) {
    return zero_ints();
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
  if constexpr (kind.halves) {
    Floats scaled = multiply(to_floats(integers[0]), scale[0]);
    scaled = multiply_add(to_floats(integers[1]), scale[1], scaled);
    sum = multiply_add(scaled, x_scale, sum);
    if constexpr (kind.addends) {
      const float* half_sums = x.half_sums + t * 2 * packed::panel_blocks + 2 * b;
      sum = multiply_add(addend[0], broadcast(half_sums[0]), sum);
      sum = multiply_add(addend[1], broadcast(half_sums[1]), sum);
    }
  } else {
    sum = multiply_add(to_floats(integers[0]), multiply(scale[0], x_scale), sum);
    if constexpr (kind.addends) {
      sum = multiply_add(addend[0], broadcast(x.sums[t * packed::panel_blocks + b]), sum);
    }
  }
  return sum;
}

void store_rows(const MatmulProduct& product, std::int64_t row, std::int64_t token, const float* sums) {
  const std::int64_t rows = product.n - row < packed::group_rows ? product.n - row : packed::group_rows;
  float* out = product.out + token * product.out_stride + row;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float y = product.bias == nullptr ? sums[r] : sums[r] + product.bias[row + r];
    out[r] = product.accumulate ? out[r] + y : y;
  }
}

// ---- one token: weights go from memory to registers once ----

/// How far ahead packed weights are asked for: a panel or two, past what the hardware fetches by itself across a page.
constexpr int prefetch_bytes = 4096;

template <PackedFormat format>
inline Floats add_block_of_one(Floats sum, const PanelHead& head, const std::uint8_t* panel, const std::uint8_t* codes_at,
                               const PanelActivations& x, int b) {
  constexpr Kind kind{has_half_scales(format), has_addends(format), is_signed(format), format.offset_shift};
  for (int line = 0; line < packed::code_bytes(format); line += 64) {
    prefetch(codes_at + prefetch_bytes + line);
  }
  const BlockScales scales = decode_scales<format>(head, panel, b);
  const std::int8_t* quants = x.quants + b * packed::block_columns;
  // Two chains of integer sums, for the halves of the block; exact, so it does not matter how they are joined.
  Ints integers[2] = {offset_term<kind>(x, 0, kind.halves ? 2 * b : b), zero_ints()};
  if constexpr (kind.halves) {
    integers[1] = offset_term<kind>(x, 0, 2 * b + 1);
  }
  unrolled<0, 4>([&]<int i>() {
    integers[0] = dot<kind.signed_codes>(integers[0], decode_codes<format, i>(codes_at), load_quad(quants + 4 * i));
    integers[1] = dot<kind.signed_codes>(integers[1], decode_codes<format, i + 4>(codes_at), load_quad(quants + 16 + 4 * i));
  });
  if constexpr (!kind.halves) {
    integers[0] = add(integers[0], integers[1]);
  }
  return add_block<kind>(sum, integers, scales.scale, scales.addend, x, 0, b);
}

template <PackedFormat format>
void multiply_one_token(const MatmulProduct& product, const MatmulPart& part, std::int64_t token) {
  const std::int64_t group_stride = packed::group_bytes(format, product.k);
  for (std::int64_t row = part.row_begin; row < part.row_end; row += packed::group_rows) {
    const std::uint8_t* panel = product.weight + row / packed::group_rows * group_stride;
    Floats sum = zero_floats();
    for (std::int64_t p = 0, column = 0; column < product.k; ++p, column += packed::panel_columns) {
      const PanelActivations x = activations_at(product.activations, product.tokens, p, token);
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

/// Tokens that share an unpacked panel; their partial sums stay in the second-level cache.
constexpr int chunk_tokens = 256;

struct UnpackedPanel {
  alignas(64) std::uint8_t codes[packed::panel_blocks][8][64];
  alignas(64) float scale[packed::panel_blocks][2][packed::group_rows];
  alignas(64) float addend[packed::panel_blocks][2][packed::group_rows];
};

/// Offsets are made equal while unpacking, so that all formats share few tile functions.
constexpr int common_offset_shift = wide_codes_unsigned ? 7 : 5;

constexpr Kind common_kind(const PackedFormat& format) {
  return {has_half_scales(format), has_addends(format), is_signed(format),
          has_addends(format) || is_signed(format) ? 0 : common_offset_shift};
}

template <PackedFormat format>
void unpack_panel(const std::uint8_t* panel, int blocks, UnpackedPanel& result) {
  const PanelHead head = decode_head<format>(panel);
  const std::uint8_t* codes_at = panel + packed::code_offset(format, blocks);
  for (int b = 0; b < blocks; ++b, codes_at += packed::code_bytes(format)) {
    unrolled<0, 8>([&]<int i>() {
      const Bytes codes = decode_codes<format, i>(codes_at);
      if constexpr (has_addends(format) || is_signed(format) || format.offset_shift == common_offset_shift) {
        store_bytes(result.codes[b][i], codes);
      } else {
        store_bytes(result.codes[b][i], add_to_bytes<(1 << common_offset_shift) - (1 << format.offset_shift)>(codes));
      }
    });
    const BlockScales scales = decode_scales<format>(head, panel, b);
    for (int half = 0; half < (has_half_scales(format) ? 2 : 1); ++half) {
      store_floats(result.scale[b][half], scales.scale[half]);
      if constexpr (has_addends(format)) {
        store_floats(result.addend[b][half], scales.addend[half]);
      }
    }
  }
}

/// sums[t][g][row] += the products of one panel of `groups` row groups with `tokens` tokens.
template <Kind kind, int groups, int tokens>
void multiply_tile(const UnpackedPanel* panels, const PanelActivations& x, int blocks, float* sums) {
  Floats sum[tokens][groups];
#pragma GCC unroll 8
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
      sum[t][g] = load_floats(sums + (t * tile_groups + g) * packed::group_rows);
    }
  }
  constexpr int parts = kind.halves ? 2 : 1;
  for (int b = 0; b < blocks; ++b) {
    Ints integers[tokens][groups][2];
#pragma GCC unroll 2
    for (int part = 0; part < parts; ++part) {
#pragma GCC unroll 8
      for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
        for (int g = 0; g < groups; ++g) {
          integers[t][g][part] = offset_term<kind>(x, t, parts * b + part);
        }
      }
#pragma GCC unroll 8
      for (int i = 8 / parts * part; i < 8 / parts * (part + 1); ++i) {
        Bytes codes[groups];
#pragma GCC unroll 8
        for (int g = 0; g < groups; ++g) {
          codes[g] = load_bytes(panels[g].codes[b][i]);
        }
#pragma GCC unroll 8
        for (int t = 0; t < tokens; ++t) {
          const Quad quad = load_quad(x.quants + t * packed::panel_columns + b * packed::block_columns + 4 * i);
#pragma GCC unroll 8
          for (int g = 0; g < groups; ++g) {
            integers[t][g][part] = dot<kind.signed_codes>(integers[t][g][part], codes[g], quad);
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
        scale[g][part] = load_floats(panels[g].scale[b][part]);
        if constexpr (kind.addends) {
          addend[g][part] = load_floats(panels[g].addend[b][part]);
        }
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        sum[t][g] = add_block<kind>(sum[t][g], integers[t][g], scale[g], addend[g], x, t, b);
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
      store_floats(sums + (t * tile_groups + g) * packed::group_rows, sum[t][g]);
    }
  }
}

/// Calls multiply_tile for `tokens` (1 to the tile's) tokens.
template <Kind kind, int groups, int tokens = tile_tokens>
void multiply_up_to(int count, const UnpackedPanel* panels, const PanelActivations& x, int blocks, float* sums) {
  if constexpr (tokens > 1) {
    if (count < tokens) {
      return multiply_up_to<kind, groups, tokens - 1>(count, panels, x, blocks, sums);
    }
  }
  multiply_tile<kind, groups, tokens>(panels, x, blocks, sums);
}

template <PackedFormat format>
void multiply_chunk(const MatmulProduct& product, std::int64_t row, int groups, std::int64_t token, int tokens) {
  constexpr Kind kind = common_kind(format);
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
    for (int t = 0; t < tokens; t += tile_tokens) {
      const PanelActivations x = activations_at(product.activations, product.tokens, p, token + t);
      const int count = tokens - t < tile_tokens ? tokens - t : tile_tokens;
      float* tile_sums = sums + t * tile_groups * packed::group_rows;
      if (groups == tile_groups) {
        multiply_up_to<kind, tile_groups>(count, panels, x, blocks, tile_sums);
      } else {
        for (int g = 0; g < groups; ++g) {
          multiply_up_to<kind, 1>(count, panels + g, x, blocks, tile_sums + g * packed::group_rows);
        }
      }
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
}  // namespace rocmforge::ROCMFORGE_ISA
