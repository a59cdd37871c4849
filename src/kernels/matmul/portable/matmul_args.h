#pragma once

#include <cstdint>

#include "tensor/quant/formats.h"

/// Formats with matrix product kernels: APPLY(name in kernel names, block type, element type of the matrix tiles, rows that
/// a wave takes with one or two tokens: as many as its registers hold two units of).
#define ROCMFORGE_MATMUL_TILE_FORMATS(APPLY) \
  APPLY(f16, BlockF16, half, 2)              \
  APPLY(bf16, BlockBF16, bfloat16, 2)        \
  APPLY(q4_0, BlockQ4_0, half, 4)            \
  APPLY(q4_1, BlockQ4_1, half, 4)            \
  APPLY(q5_0, BlockQ5_0, half, 4)            \
  APPLY(q5_1, BlockQ5_1, half, 4)            \
  APPLY(q8_0, BlockQ8_0, half, 4)            \
  APPLY(q2_k, BlockQ2_K, half, 4)            \
  APPLY(q3_k, BlockQ3_K, half, 2)            \
  APPLY(q4_k, BlockQ4_K, half, 4)            \
  APPLY(q5_k, BlockQ5_K, half, 2)            \
  APPLY(q6_k, BlockQ6_K, half, 2)            \
  APPLY(iq4_nl, BlockIQ4_NL, half, 4)        \
  APPLY(iq4_xs, BlockIQ4_XS, half, 4)        \
  APPLY(mxfp4, BlockMXFP4, half, 4)
/// F32 has no matrix tiles: 16 bits are not enough for it.
#define ROCMFORGE_MATMUL_FORMATS(APPLY) APPLY(f32, BlockF32, float, 2) ROCMFORGE_MATMUL_TILE_FORMATS(APPLY)

/// One set of kernels for all of CodedFormats: APPLY as above, BlockCoded from matmul_decode.h.
#define ROCMFORGE_MATMUL_CODED(APPLY) APPLY(coded, BlockCoded, half, 1)

namespace rocmforge::gpu {

/// Formats that share kernels; a launch names its format. All their blocks can be expressed as signed bytes with a scale for
/// 16 elements or more.
using CodedFormats = FormatList<BlockNVFP4, BlockIQ1_S, BlockIQ1_M, BlockIQ2_XXS, BlockIQ2_XS, BlockIQ2_S, BlockIQ3_XXS,
                                BlockIQ3_S, BlockTQ1_0, BlockTQ2_0>;

inline constexpr int most_matmul_parts = 4;

/// One weight of a launch and where its product goes. All weights of a launch have one format.
struct MatmulPart {
  const std::uint8_t* weight;  ///< [n] rows of row_bytes, as the file stores them
  const float* bias;           ///< [n] or null
  float* out;                  ///< [tokens, n], rows `stride` apart
  std::int64_t stride;
  std::int64_t row_bytes;
  std::int32_t n;
  std::int32_t first_tile;  ///< of the launch's tiles of rows: this part's are those up to the next part's first
  std::int32_t accumulate;  ///< out += in place of out =
  float scale;              ///< of the whole product
};

/// Few tokens; see matvec.h. Grid: tiles of rows.
struct MatvecArgs {
  MatmulPart parts[most_matmul_parts];
  const float* x;  ///< [tokens, k], rows x_stride apart
  std::int64_t x_stride;
  std::int32_t num_parts;
  std::int32_t k;
  std::int32_t tokens;     ///< at most the kernel's number
  std::int32_t chunk;      ///< elements of x in shared memory at a time for each token: a multiple of 256
  std::int32_t x_aligned;  ///< rows of x start at 16-byte boundaries and k is a multiple of 4
  DType dtype;             ///< of the weights
};

inline constexpr int matvec_threads = 256;
/// Rows that a wave takes; `few_rows` is the format's number for one or two tokens.
constexpr int matvec_wave_rows(int tokens, int few_rows) { return tokens <= 2 ? few_rows : 2; }
inline constexpr int most_matvec_tokens = 8;
/// Work-groups that a multiprocessor should hold at least; the register limit follows from it. On gfx906, which has 256
/// registers and no accumulators, two would make some formats spill to memory.
#if defined(__gfx906__)
constexpr int matvec_groups(int) { return 1; }
#else
constexpr int matvec_groups(int tokens) { return tokens <= 2 ? 2 : 1; }
#endif

/// x as 16-bit rows for the matrix tiles. Grid: tokens.
struct ConvertRowsArgs {
  const float* x;  ///< [tokens, k], rows x_stride apart
  std::int64_t x_stride;
  std::uint16_t* rows;  ///< [tokens, padded_k] of binary16 or bfloat16, zeros from k on
  float* scales;        ///< [tokens]: x = row * scale, a power of two
  std::int32_t k;
  std::int32_t padded_k;
};
inline constexpr int convert_threads = 256;

/// Completes a product of converted rows in place: out * scale + bias. Grid: tokens.
struct FinishRowsArgs {
  float* out;  ///< [tokens, n], rows `stride` apart
  std::int64_t stride;
  const float* scales;  ///< [tokens] of ConvertRowsArgs
  const float* bias;    ///< [n] or null
  std::int32_t n;
  std::int32_t divide;  ///< out / scale in place of out * scale, before a product is added
};
inline constexpr int finish_threads = 256;

/// Many tokens; see matmul.h. Grid: tiles of tokens, tiles of rows.
struct MatmulTileArgs {
  MatmulPart parts[most_matmul_parts];
  const std::uint16_t* x;  ///< [tokens, padded_k] as ConvertRowsArgs says
  const float* x_scales;   ///< [tokens]
  std::int32_t num_parts;
  std::int32_t k;
  std::int32_t padded_k;
  std::int32_t tokens;
  DType dtype;  ///< of the weights
  std::int32_t unused;
};

/// What a work-group computes: `tokens` x `rows` outputs, over `k_step` elements at a time.
struct MatmulTileShape {
  int tokens;
  int rows;
  int k_step;
  int threads;
  int waves_along_tokens;
};
inline constexpr MatmulTileShape large_matmul_tile{128, 128, 32, 256, 2};
inline constexpr MatmulTileShape small_matmul_tile{32, 64, 64, 128, 1};
/// Rows of x are padded to a multiple of this.
inline constexpr int matmul_k_padding = 64;

/// Weights and activations in float. Grid: tiles of tokens, tiles of rows.
struct MatmulFloatArgs {
  MatmulPart parts[most_matmul_parts];
  const float* x;  ///< [tokens, k], rows x_stride apart
  std::int64_t x_stride;
  std::int32_t num_parts;
  std::int32_t k;
  std::int32_t tokens;
  std::int32_t unused;
};
inline constexpr int float_tile = 32;  ///< tokens, and rows, of a work-group
inline constexpr int float_threads = 256;

}  // namespace rocmforge::gpu
