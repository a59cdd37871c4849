#pragma once

#include "kernels/matmul/cpu/body/matmul_quantised_block.h"
#include "kernels/matmul/cpu/body/matmul_store.h"

/// One token: weights go from memory to registers once.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// How far ahead packed weights are prefetched: a panel or two, farther than the hardware prefetches across a page.
constexpr int prefetch_bytes = 4096;

/// The integers of one block of 16 rows: of the whole block, or of its halves.
template <PackedFormat format>
inline void block_integers(const std::uint8_t* codes_at, const BlockScales& scales, const PanelActivations& x, int b,
                           Ints (&integers)[2]) {
  constexpr Kind kind = kind_of(format);
  const std::int8_t* quants = x.quants + b * packed::block_columns;
  constexpr bool by_halves = keeps_halves(kind);
  integers[0] = offset_term<kind>(x, 0, by_halves ? 2 * b : b, scales.multiplier);
  integers[1] = by_halves ? offset_term<kind>(x, 0, 2 * b + 1, scales.multiplier) : zero_ints();
  if constexpr (narrow_chains && !kind.signed_codes) {
    constexpr int part_steps = kind.halves ? 4 : 8;
    constexpr int steps = chain_steps<kind.code_bits> < part_steps ? chain_steps<kind.code_bits> : part_steps;
    unrolled<0, 8 / steps>([&]<int chain>() {
      Ints& part = integers[by_halves ? chain * steps / part_steps : 0];
      Chain sum = start_chain<kind.code_bits>(part, decode_codes<format, chain * steps>(codes_at),
                                              load_quad(quants + 4 * chain * steps));
      unrolled<chain * steps + 1, (chain + 1) * steps>([&]<int i>() {
        sum = continue_chain<kind.code_bits>(sum, decode_codes<format, i>(codes_at), load_quad(quants + 4 * i));
      });
      if constexpr (kind.scales_integers) {
        part = end_scaled_chain<kind.code_bits>(part, sum, scales.multiplier[chain * steps / part_steps]);
      } else {
        part = end_chain<kind.code_bits>(part, sum);
      }
    });
  } else {
    // Two chains of integer sums, for the halves of the block; exact, so it does not matter how they are joined.
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

/// The sum of a row so far; `product` is the panel's where scales are integers.
struct SumOfOne {
  Floats sum;
  Floats product;
};

template <PackedFormat format>
inline void add_block_of_one(SumOfOne& row, const PanelHead& head, const std::uint8_t* panel, const std::uint8_t* codes_at,
                             const PanelActivations& x, int b) {
  constexpr Kind kind = kind_of(format);
  for (int line = 0; line < packed::code_bytes(format); line += 64) {
    prefetch(codes_at + prefetch_bytes + line);
  }
  const BlockScales scales = decode_scales<format>(head, panel, b);
  Ints integers[2];
  block_integers<format>(codes_at, scales, x, b, integers);
  Floats& products = kind.scales_integers ? row.product : row.sum;
  products = add_products_of_block<kind>(products, integers, scales.scale, x, 0, b);
  row.sum = add_minima_of_block<kind>(row.sum, scales.addend, x, 0, b);
}

template <PackedFormat format>
void multiply_one_token(const MatmulProduct& product, const MatmulPart& part, std::int64_t token) {
  const std::int64_t group_stride = packed::group_bytes(format, product.k);
  for (std::int64_t row = part.row_begin; row < part.row_end; row += packed::group_rows) {
    const std::uint8_t* panel = product.weight + row / packed::group_rows * group_stride;
    SumOfOne sum = {zero_floats(), zero_floats()};
    for (std::int64_t p = 0, column = 0; column < product.k; ++p, column += packed::panel_columns) {
      const PanelActivations x = activations_at(product.quantised, product.tokens, p, token);
      const std::int64_t left = (product.k - column) / packed::block_columns;
      const int blocks = static_cast<int>(left < packed::panel_blocks ? left : packed::panel_blocks);
      const PanelHead head = decode_head<format>(panel);
      const std::uint8_t* codes_at = panel + packed::code_offset(format, blocks);
      for (int b = 0; b < blocks; ++b, codes_at += packed::code_bytes(format)) {
        add_block_of_one<format>(sum, head, panel, codes_at, x, b);
      }
      if constexpr (kind_of(format).scales_integers) {
        sum = {multiply_add(sum.product, head.d, sum.sum), zero_floats()};
      }
      panel += packed::panel_bytes(format, blocks);
    }
    alignas(64) float sums[packed::group_rows];
    store_floats(sums, sum.sum);
    store_rows(product, row, token, sums);
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
