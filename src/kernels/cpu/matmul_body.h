#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

/// The interface between the scheduling of a matrix product (matmul.cpp) and its bodies, which are compiled once per
/// instruction set. Only plain structs and function pointers cross it.
namespace rocmforge {

/// Activations in 8 bits, in panels of 256 columns: x = scale * quant, |quant| <= 127, one scale per 32 columns.
/// A row of panel p and token t starts at element (p * tokens + t) * row length.
struct QuantisedActivations {
  std::int8_t* quants;               ///< [panels, tokens, 256]
  float* scales;                     ///< [panels, tokens, 8]
  float* sums;                       ///< [panels, tokens, 8]: scale * sum of the 32 quants
  std::int32_t* negative_sums;       ///< [panels, tokens, 8]: -(sum of the 32 quants)
  float* half_sums;                  ///< [panels, tokens, 16]: as sums, for 16 columns
  std::int32_t* negative_half_sums;  ///< [panels, tokens, 16]
};

/// One weight against all tokens.
struct MatmulProduct {
  DType dtype;
  const std::uint8_t* weight;  ///< packed groups, or rows [n, k] of a plain type
  std::int64_t n;
  std::int64_t k;
  std::int64_t tokens;
  const float* x;  ///< [tokens, k], rows x_stride apart; read for plain types only
  std::int64_t x_stride;
  QuantisedActivations activations;  ///< read for quantised types only
  const float* bias;                 ///< [n] or null
  float* out;                        ///< [tokens, n], rows out_stride apart
  std::int64_t out_stride;
  bool accumulate;
};

/// The part of a product that one thread computes at a time: rows [row_begin, row_end) of the weight (row_begin is a
/// multiple of 16) and a range of tokens.
struct MatmulPart {
  std::int64_t row_begin;
  std::int64_t row_end;
  std::int64_t token_begin;
  std::int64_t token_end;
};

struct MatmulBody {
  /// Quantises panel `panel` (columns [256 * panel, min(k, 256 * panel + 256))) of the tokens [token_begin, token_end).
  void (*quantise)(const float* x, std::int64_t x_stride, std::int64_t k, std::int64_t tokens, std::int64_t panel,
                   std::int64_t token_begin, std::int64_t token_end, const QuantisedActivations& result);
  void (*quantised)(const MatmulProduct& product, const MatmulPart& part);
  void (*plain)(const MatmulProduct& product, const MatmulPart& part);
  int tile_rows;    ///< rows that are best computed together when there are many tokens
  int tile_tokens;  ///< likewise tokens
};

#ifdef ROCMFORGE_HAS_generic
namespace generic {
extern const MatmulBody matmul_body;
}
#endif
#ifdef ROCMFORGE_HAS_neon
namespace neon {
extern const MatmulBody matmul_body;
}
#endif
#ifdef ROCMFORGE_HAS_avx2
namespace avx2 {
extern const MatmulBody matmul_body;
}
#endif
#ifdef ROCMFORGE_HAS_avx512
namespace avx512 {
extern const MatmulBody matmul_body;
}
#endif

}  // namespace rocmforge
