#include "kernels/matmul/cpu/body/matmul_activations.h"
#include "kernels/matmul/cpu/body/matmul_quantised_one.h"
#include "kernels/matmul/cpu/body/matmul_quantised_tile.h"
#include "kernels/matmul/cpu/body/matmul_store.h"
#include "kernels/matmul/cpu/matmul_body.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// Blocks whose sums leave 16 bits are short: with fewer tokens the next block begins while this one is scaled.
constexpr int tokens_of_tile(Kind kind) { return narrow_chains && kind.code_bits < 8 ? tile_tokens - 2 : tile_tokens; }

/// Multiplies as many of `count` tokens as one tile takes, and returns how many those were.
template <Kind kind, int groups>
int multiply_some(int count, const UnpackedPanel* panels, const PanelActivations& x, int blocks, float* sums) {
  constexpr int most = tokens_of_tile(kind);
  if (count >= most) {
    multiply_tile<kind, groups, most>(panels, x, blocks, sums);
    return most;
  }
  if constexpr (most == 4) {  // an expert gets few tokens of a prompt, often three more than whole tiles
    if (count == 3) {
      multiply_tile<kind, groups, 3>(panels, x, blocks, sums);
      return 3;
    }
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
      return multiply_format<packed::layout_of(packed::formats[index])>(product, part);
    }
    multiply_quantised<index + 1>(product, part);
  }
}

}  // namespace

extern const QuantisedBody quantised_body;
const QuantisedBody quantised_body = {quantise, multiply_quantised<>, tile_groups* packed::group_rows, tile_tokens,
                                      wide_activations};

}  // namespace rocmforge::ROCMFORGE_ISA
