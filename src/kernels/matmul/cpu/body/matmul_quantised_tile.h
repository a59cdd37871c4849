#pragma once

#include "kernels/matmul/cpu/body/matmul_quantised_block.h"

/// Many tokens: panels are unpacked to bytes once, then multiplied by all tokens, a tile of row groups and tokens at a time.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// Codes that don't fit a chain of 16-bit sums are unpacked to 16 bits, two columns a step.
constexpr bool unpacks_wide(Kind kind) { return wide_activations && kind.signed_codes; }
constexpr int steps_of(Kind kind) { return unpacks_wide(kind) ? 16 : 8; }

struct UnpackedPanel {
  alignas(64) std::uint8_t codes[packed::panel_blocks * (wide_activations ? 16 : 8) * 64];  ///< [block][step][64]
  alignas(64) float scale[packed::panel_blocks][2][packed::group_rows];
  alignas(64) float addend[packed::panel_blocks][2][packed::group_rows];
  alignas(64) float d[packed::group_rows];
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
    const std::uint8_t* scales_at = scales_of_block<format>(panel, b);
    unrolled<0, kind.halves ? 2 : 1>([&]<int half>() {
      if constexpr (kind.scales_integers) {
        store_ints(result.multiplier[b][half], decode_multiplier<format, half>(scales_at));
      } else {
        store_floats(result.scale[b][half], decode_scales<format>(head, panel, b).scale[half]);
      }
      if constexpr (kind.addends) {
        store_floats(result.addend[b][half], decode_addend<format, half>(head, scales_at));
      }
    });
  }
  if constexpr (kind.scales_integers) {
    store_floats(result.d, head.d);
  }
}

// The pieces of a tile are one function once compiled: its sums and chains live in registers.

/// sum[t][g] from or to sums[t][g][row].
template <int groups, int tokens>
[[gnu::always_inline]] inline void load_sums(const float* sums, Floats (&sum)[tokens][groups]) {
#pragma GCC unroll 8
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
      sum[t][g] = load_floats(sums + (t * tile_groups + g) * packed::group_rows);
    }
  }
}
template <int groups, int tokens>
[[gnu::always_inline]] inline void store_sums(const Floats (&sum)[tokens][groups], float* sums) {
#pragma GCC unroll 8
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
      store_floats(sums + (t * tile_groups + g) * packed::group_rows, sum[t][g]);
    }
  }
}

template <Kind kind>
struct TileShape {
  static constexpr int parts = kind.halves ? 2 : 1;
  static constexpr int steps = steps_of(kind);
  static constexpr int part_steps = steps / parts;
  /// Dot products that are summed before the sum joins the block's integers.
  static constexpr int chain = chain_steps<kind.code_bits> < part_steps ? chain_steps<kind.code_bits> : part_steps;
};

/// The dot products of one chain, which begins with step `begin` of block `b`.
template <Kind kind, int groups, int tokens>
[[gnu::always_inline]] inline void sum_chains(const UnpackedPanel* panels, const std::int8_t* quants, int b, int begin,
                                              int to, const Ints (&integers)[tokens][groups][2],
                                              Chain (&chains)[tokens][groups]) {
  constexpr int steps = TileShape<kind>::steps;
#pragma GCC unroll 16
  for (int i = begin; i < begin + TileShape<kind>::chain; ++i) {
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
}

/// The integer sums of one part of block `b`: of the whole block, or of one of its halves.
template <Kind kind, int groups, int tokens>
[[gnu::always_inline]] inline void sum_part(const UnpackedPanel* panels, const PanelActivations& x, int b, int part,
                                            Ints (&integers)[tokens][groups][2]) {
  using Shape = TileShape<kind>;
  const std::int8_t* quants = unpacks_wide(kind) ? reinterpret_cast<const std::int8_t*>(x.wide_quants) : x.quants;
  const int to = kind.scales_integers ? 0 : part;
  if (part == to) {
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        integers[t][g][to] =
            offset_term<kind>(x, t, kind.scales_integers ? b : Shape::parts * b + part, panels[g].multiplier[b]);
      }
    }
  }
#pragma GCC unroll 8
  for (int begin = Shape::part_steps * part; begin < Shape::part_steps * (part + 1); begin += Shape::chain) {
    Chain chains[tokens][groups];
    sum_chains<kind>(panels, quants, b, begin, to, integers, chains);
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        if constexpr (kind.scales_integers) {
          integers[t][g][to] =
              end_scaled_chain<kind.code_bits>(integers[t][g][to], chains[t][g], panels[g].multiplier[b][part]);
        } else {
          integers[t][g][to] = end_chain<kind.code_bits>(integers[t][g][to], chains[t][g]);
        }
      }
    }
  }
}

/// Scales the integer sums of block `b` and adds them to the sums, which are in `sum` or in memory.
template <Kind kind, int groups, int tokens>
[[gnu::always_inline]] inline void add_blocks(const UnpackedPanel* panels, const PanelActivations& x, int b,
                                              const Ints (&integers)[tokens][groups][2], Floats (&sum)[tokens][groups],
                                              float* sums) {
  Floats scale[groups][2];
  Floats addend[groups][2];
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
#pragma GCC unroll 2
    for (int part = 0; part < TileShape<kind>::parts; ++part) {
      if constexpr (!kind.scales_integers) {
        scale[g][part] = load_floats(panels[g].scale[b][part]);
        if constexpr (kind.addends) {
          addend[g][part] = load_floats(panels[g].addend[b][part]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
      float* at = sums + (t * tile_groups + g) * packed::group_rows;
      sum[t][g] = add_products_of_block<kind>(sums_stay_in_registers ? sum[t][g] : load_floats(at), integers[t][g], scale[g],
                                              x, t, b);
      if constexpr (!kind.scales_integers) {
        sum[t][g] = add_minima_of_block<kind>(sum[t][g], addend[g], x, t, b);
      }
      if constexpr (!sums_stay_in_registers) {
        store_floats(at, sum[t][g]);
      }
    }
  }
}

/// The minima of all blocks: the sums fit the registers while no integers are there.
template <Kind kind, int groups, int tokens>
[[gnu::always_inline]] inline void add_minima(const UnpackedPanel* panels, const PanelActivations& x, int blocks,
                                              Floats (&sum)[tokens][groups]) {
  for (int b = 0; b < blocks; ++b) {
    Floats addend[groups][2];
#pragma GCC unroll 8
    for (int g = 0; g < groups; ++g) {
#pragma GCC unroll 2
      for (int part = 0; part < TileShape<kind>::parts; ++part) {
        addend[g][part] = load_floats(panels[g].addend[b][part]);
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        sum[t][g] = add_minima_of_block<kind>(sum[t][g], addend[g], x, t, b);
      }
    }
  }
}

/// sums[t][g][row] += the products of one panel of `groups` row groups with `tokens` tokens.
template <Kind kind, int groups, int tokens>
void multiply_tile(const UnpackedPanel* panels, const PanelActivations& x, int blocks, float* sums) {
  static_assert(!kind.scales_integers || !sums_stay_in_registers);
  Floats sum[tokens][groups];
  [[maybe_unused]] alignas(64) float products[tokens * tile_groups * packed::group_rows];  // sums of the panel alone
  float* to = sums;
  if constexpr (kind.scales_integers) {
    to = products;
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        sum[t][g] = zero_floats();
      }
    }
    store_sums(sum, products);
  } else if constexpr (sums_stay_in_registers) {
    load_sums(sums, sum);
  }
  for (int b = 0; b < blocks; ++b) {
    Ints integers[tokens][groups][2];
#pragma GCC unroll 2
    for (int part = 0; part < TileShape<kind>::parts; ++part) {
      sum_part<kind>(panels, x, b, part, integers);
    }
    add_blocks<kind>(panels, x, b, integers, sum, to);
  }
  if constexpr (kind.scales_integers) {
    load_sums(sums, sum);
    if constexpr (kind.addends) {
      add_minima<kind>(panels, x, blocks, sum);
    }
#pragma GCC unroll 8
    for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 8
      for (int g = 0; g < groups; ++g) {
        const Floats product = load_floats(products + (t * tile_groups + g) * packed::group_rows);
        sum[t][g] = multiply_add(product, load_floats(panels[g].d), sum[t][g]);
      }
    }
    store_sums(sum, sums);
  } else if constexpr (sums_stay_in_registers) {
    store_sums(sum, sums);
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
