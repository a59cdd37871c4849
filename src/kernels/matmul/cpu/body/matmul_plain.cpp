#include <cstring>

#include "kernels/matmul/cpu/body/matmul_store.h"
#include "kernels/matmul/cpu/matmul_body.h"
#include "kernels/tile/cpu/matmul_simd.h"

/// Products of F32, F16 and BF16 weights with f32 activations, and of BF16 weights with BF16 activations where the
/// instruction set multiplies such pairs. A row's sum runs through the columns of a panel in rising order, and the sums of
/// panels are added in rising order: with one token and with many.
namespace rocmforge::ROCMFORGE_ISA {
namespace {

constexpr std::int64_t element_bytes(DType type) { return type == DType::f32 ? 4 : 2; }

/// Columns of panel `panel`, an even number: an odd weight ends with a column of zeros.
inline int columns_of(const MatmulProduct& product, std::int64_t panel) {
  const std::int64_t left = (product.k + 1) / 2 * 2 - panel * packed::plain_panel_columns;
  return static_cast<int>(left < packed::plain_panel_columns ? left : packed::plain_panel_columns);
}

/// One panel of activations, [tokens, 128].
struct PlainPanel {
  const float* values;
  const std::uint16_t* bfloats;
};

inline PlainPanel plain_panel(const MatmulProduct& product, std::int64_t panel, std::int64_t token) {
  const std::int64_t at = (panel * product.tokens + token) * packed::plain_panel_columns;
  return {product.plain.values + at, product.plain.bfloats == nullptr ? nullptr : product.plain.bfloats + at};
}

void prepare(const InputPanel& input, const PlainActivations& result) {
  constexpr int columns = packed::plain_panel_columns;
  const std::int64_t first = input.panel * columns;
  const std::int64_t count = input.k - first < columns ? input.k - first : columns;
  for (std::int64_t t = input.token_begin; t < input.token_end; ++t) {
    const std::int64_t at = (input.panel * input.tokens + t) * columns;
    float* values = result.values + at;
    std::memcpy(values, input.x + t * input.x_stride + first, static_cast<std::size_t>(count) * sizeof(float));
    std::memset(values + count, 0, static_cast<std::size_t>(columns - count) * sizeof(float));
    if constexpr (multiplies_bfloats) {
      for (int c = 0; result.bfloats != nullptr && c < columns; c += packed::group_rows) {
        store_bfloats(result.bfloats + at + c, load_floats(values + c));
      }
    }
  }
}

/// The weights of two neighbouring columns of 16 rows.
template <DType type>
inline ColumnPair load_columns(const std::uint8_t* from) {
  if constexpr (type == DType::f32) {
    return {load_floats(from), load_floats(from + 64)};
  } else if constexpr (type == DType::f16) {
    return {load_halves(from), load_halves(from + 32)};
  } else {
    return load_bfloat_pairs(from);
  }
}

// ---- one token: weights go from memory to registers once ----

constexpr int plain_prefetch_bytes = 4096;

template <DType type, bool pairs, int groups>
void multiply_plain_one(const MatmulProduct& product, std::int64_t row, std::int64_t token) {
  constexpr std::int64_t pair_bytes = 2 * packed::group_rows * element_bytes(type);
  const std::int64_t group_stride = packed::plain_group_bytes(type, product.k);
  const std::uint8_t* weight = product.weight + row / packed::group_rows * group_stride;
  Floats total[groups];
  for (Floats& one : total) {
    one = zero_floats();
  }
  for (std::int64_t p = 0; p * packed::plain_panel_columns < product.k; ++p) {
    const PlainPanel x = plain_panel(product, p, token);
    const int columns = columns_of(product, p);
    Floats sum[groups];
    for (Floats& one : sum) {
      one = zero_floats();
    }
    for (int c = 0; c < columns; c += 2, weight += pair_bytes) {
#pragma GCC unroll 2
      for (int g = 0; g < groups; ++g) {
        for (int line = 0; line < pair_bytes; line += 64) {
          prefetch(weight + g * group_stride + plain_prefetch_bytes + line);
        }
        if constexpr (pairs) {
          sum[g] = multiply_bfloat_pairs(sum[g], weight + g * group_stride, x.bfloats + c);
        } else {
          const ColumnPair w = load_columns<type>(weight + g * group_stride);
          sum[g] = multiply_add(w.first, broadcast(x.values[c]), sum[g]);
          sum[g] = multiply_add(w.second, broadcast(x.values[c + 1]), sum[g]);
        }
      }
    }
    for (int g = 0; g < groups; ++g) {
      total[g] = add(total[g], sum[g]);
    }
  }
  for (int g = 0; g < groups; ++g) {
    alignas(64) float sums[packed::group_rows];
    store_floats(sums, total[g]);
    store_rows(product, row + g * packed::group_rows, token, sums);
  }
}

// ---- many tokens: panels are converted to floats once, then multiplied by all tokens ----

/// [columns, groups, 16] floats, or [columns / 2, groups, 16] pairs.
struct UnpackedColumns {
  alignas(64) std::uint8_t steps[packed::plain_panel_columns * plain_tile_groups * 64];
};

template <DType type, bool pairs>
void unpack_columns(const std::uint8_t* weight, int columns, int group, int groups, UnpackedColumns& result) {
  constexpr std::int64_t pair_bytes = 2 * packed::group_rows * element_bytes(type);
  std::uint8_t* to = result.steps + group * 64;
  for (int c = 0; c < columns; c += 2, weight += pair_bytes) {
    if constexpr (pairs) {
      std::memcpy(to + c / 2 * groups * 64, weight, 64);
    } else {
      const ColumnPair w = load_columns<type>(weight);
      store_floats(reinterpret_cast<float*>(to + c * groups * 64), w.first);
      store_floats(reinterpret_cast<float*>(to + (c + 1) * groups * 64), w.second);
    }
  }
}

/// sums[t][g][row] += the products of one panel of `groups` row groups with `tokens` tokens.
template <bool pairs, int groups, int tokens>
void multiply_plain_tile(const UnpackedColumns& panel, const PlainPanel& x, int columns, float* sums) {
  Floats sum[tokens][groups];
#pragma GCC unroll 16
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) {
      sum[t][g] = zero_floats();
    }
  }
  const std::uint8_t* at = panel.steps;
  for (int c = 0; c < columns; c += pairs ? 2 : 1, at += groups * 64) {
    [[maybe_unused]] Floats w[groups];
    if constexpr (!pairs) {
#pragma GCC unroll 2
      for (int g = 0; g < groups; ++g) {
        w[g] = load_floats(at + g * 64);
      }
    }
#pragma GCC unroll 16
    for (int t = 0; t < tokens; ++t) {
      if constexpr (pairs) {
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
          sum[t][g] = multiply_bfloat_pairs(sum[t][g], at + g * 64, x.bfloats + t * packed::plain_panel_columns + c);
        }
      } else {
        const Floats value = broadcast(x.values[t * packed::plain_panel_columns + c]);
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
          sum[t][g] = multiply_add(w[g], value, sum[t][g]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < tokens; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) {
      float* total = sums + (t * groups + g) * packed::group_rows;
      store_floats(total, add(load_floats(total), sum[t][g]));
    }
  }
}

/// Multiplies as many of `count` tokens as one tile takes, and returns how many those were.
template <bool pairs, int groups>
int multiply_plain_some(int count, const UnpackedColumns& panel, const PlainPanel& x, int columns, float* sums) {
  constexpr int some = plain_tile_tokens / 3 > 1 ? plain_tile_tokens / 3 : 1;
  if (count >= plain_tile_tokens) {
    multiply_plain_tile<pairs, groups, plain_tile_tokens>(panel, x, columns, sums);
    return plain_tile_tokens;
  }
  if (count >= some) {
    multiply_plain_tile<pairs, groups, some>(panel, x, columns, sums);
    return some;
  }
  multiply_plain_tile<pairs, groups, 1>(panel, x, columns, sums);
  return 1;
}

template <DType type, bool pairs, int groups>
void multiply_plain_chunk(const MatmulProduct& product, std::int64_t row, std::int64_t token, int tokens) {
  const std::int64_t group_stride = packed::plain_group_bytes(type, product.k);
  const std::int64_t panel_stride = packed::plain_panel_columns * packed::group_rows * element_bytes(type);
  const std::uint8_t* weight = product.weight + row / packed::group_rows * group_stride;
  UnpackedColumns panel;
  alignas(64) float sums[chunk_tokens * groups * packed::group_rows];
  std::memset(sums, 0, static_cast<std::size_t>(tokens * groups * packed::group_rows) * sizeof(float));
  for (std::int64_t p = 0; p * packed::plain_panel_columns < product.k; ++p, weight += panel_stride) {
    const int columns = columns_of(product, p);
    for (int g = 0; g < groups; ++g) {
      unpack_columns<type, pairs>(weight + g * group_stride, columns, g, groups, panel);
      // The next panel comes from memory while this one is computed with.
      for (std::int64_t line = 0; line < panel_stride; line += 64) {
        prefetch(weight + g * group_stride + panel_stride + line);
      }
    }
    for (int t = 0; t < tokens;) {
      t += multiply_plain_some<pairs, groups>(tokens - t, panel, plain_panel(product, p, token + t), columns,
                                              sums + t * groups * packed::group_rows);
    }
  }
  for (int t = 0; t < tokens; ++t) {
    for (int g = 0; g < groups; ++g) {
      store_rows(product, row + g * packed::group_rows, token + t, sums + (t * groups + g) * packed::group_rows);
    }
  }
}

template <DType type, bool pairs, int groups>
void multiply_plain_groups(const MatmulProduct& product, const MatmulPart& part, std::int64_t row) {
  if (part.token_end - part.token_begin == 1) {
    return multiply_plain_one<type, pairs, groups>(product, row, part.token_begin);
  }
  for (std::int64_t token = part.token_begin; token < part.token_end; token += chunk_tokens) {
    const std::int64_t left = part.token_end - token;
    multiply_plain_chunk<type, pairs, groups>(product, row, token,
                                              static_cast<int>(left < chunk_tokens ? left : chunk_tokens));
  }
}

template <DType type, bool pairs = false>
void multiply_plain_type(const MatmulProduct& product, const MatmulPart& part) {
  constexpr std::int64_t tile_rows = plain_tile_groups * packed::group_rows;
  std::int64_t row = part.row_begin;
  for (; row + tile_rows <= part.row_end; row += tile_rows) {
    multiply_plain_groups<type, pairs, plain_tile_groups>(product, part, row);
  }
  for (; row < part.row_end; row += packed::group_rows) {
    multiply_plain_groups<type, pairs, 1>(product, part, row);
  }
}

void multiply_plain(const MatmulProduct& product, const MatmulPart& part) {
  switch (product.dtype) {
    case DType::f32:
      return multiply_plain_type<DType::f32>(product, part);
    case DType::f16:
      return multiply_plain_type<DType::f16>(product, part);
    default:
      return multiply_plain_type<DType::bf16>(product, part);
  }
}

#if defined(ROCMFORGE_ISA_avx512)
void multiply_bfloats(const MatmulProduct& product, const MatmulPart& part) {
  multiply_plain_type<DType::bf16, true>(product, part);
}
#endif

}  // namespace

constexpr int tile_rows = plain_tile_groups * packed::group_rows;

extern const PlainBody plain_body;
const PlainBody plain_body = {prepare, multiply_plain, tile_rows, plain_tile_tokens, false};

#if defined(ROCMFORGE_ISA_avx512)
extern const PlainBody bfloat_body;
const PlainBody bfloat_body = {prepare, multiply_bfloats, tile_rows, plain_tile_tokens, true};
#endif

}  // namespace rocmforge::ROCMFORGE_ISA
