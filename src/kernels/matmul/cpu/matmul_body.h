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
  // Null unless QuantisedBody::wide.
  std::int16_t* wide_quants;  ///< [panels, tokens, 256]: the quants again
  std::int16_t* half_pairs;   ///< [panels, tokens, 16]: -(sum of the 16 quants)
};

/// Activations for plain weights, in panels of 128 columns with zeros after the last column.
struct PlainActivations {
  float* values;           ///< [panels, tokens, 128]
  std::uint16_t* bfloats;  ///< likewise, rounded to bf16; null unless PlainBody::bfloats
};

/// One weight against all tokens.
struct MatmulProduct {
  DType dtype;
  const std::uint8_t* weight;  ///< packed groups
  std::int64_t n;
  std::int64_t k;
  std::int64_t tokens;
  QuantisedActivations quantised;  ///< read for quantised types only
  PlainActivations plain;          ///< read for plain types only
  const float* bias;               ///< [n] or null
  float* out;                      ///< [tokens, n], rows out_stride apart
  std::int64_t out_stride;
  bool accumulate;
  float scale;  ///< of the whole product
};

/// The part of a product that one thread computes at a time: rows [row_begin, row_end) of the weight (row_begin is a
/// multiple of 16) and a range of tokens.
struct MatmulPart {
  std::int64_t row_begin;
  std::int64_t row_end;
  std::int64_t token_begin;
  std::int64_t token_end;
};

/// A range of an input [tokens, k]: the columns of one panel of some tokens.
struct InputPanel {
  const float* x;  ///< the whole input, rows x_stride apart
  std::int64_t x_stride;
  std::int64_t k;
  std::int64_t tokens;
  std::int64_t panel;
  std::int64_t token_begin;
  std::int64_t token_end;
};

/// Products of block formats.
struct QuantisedBody {
  void (*quantise)(const InputPanel& input, const QuantisedActivations& result);  ///< panels of 256 columns
  void (*multiply)(const MatmulProduct& product, const MatmulPart& part);
  int tile_rows;    ///< rows that are best computed together when there are many tokens
  int tile_tokens;  ///< likewise tokens
  bool wide;        ///< reads the activations of 16 bits
};

/// Products of F32, F16 and BF16.
struct PlainBody {
  void (*prepare)(const InputPanel& input, const PlainActivations& result);  ///< panels of 128 columns
  void (*multiply)(const MatmulProduct& product, const MatmulPart& part);
  int tile_rows;
  int tile_tokens;
  bool bfloats;  ///< for BF16 weights alone, which are multiplied by activations rounded to BF16
};

#define ROCMFORGE_DECLARE_MATMUL_BODIES(isa) \
  namespace isa {                            \
  extern const QuantisedBody quantised_body; \
  extern const PlainBody plain_body;         \
  }
ROCMFORGE_DECLARE_MATMUL_BODIES(generic)
ROCMFORGE_DECLARE_MATMUL_BODIES(neon)
ROCMFORGE_DECLARE_MATMUL_BODIES(avx2)
ROCMFORGE_DECLARE_MATMUL_BODIES(avx512)
#undef ROCMFORGE_DECLARE_MATMUL_BODIES
namespace avx512 {
extern const PlainBody bfloat_body;
}
namespace avxvnni {
extern const QuantisedBody quantised_body;  ///< its other bodies are those of avx2
}

}  // namespace rocmforge
