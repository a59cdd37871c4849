#pragma once

#include <cstdint>

#include "kernels/formats/amd/weight_layout.h"
#include "kernels/rows/portable/elementwise_args.h"
#include "ops/activation.h"

namespace rocmforge::amd {

inline constexpr int most_matvec_parts = 4;
inline constexpr int most_matvec_tokens = 8;
/// Of a work-group: 16 waves of 32 lanes, 8 of 64.
inline constexpr int matvec_threads = 512;
/// What a kernel is for.
enum class MatvecWay : std::uint8_t {
  several_tokens,
  one_token,
  one_token_halves,  ///< halves of tiles, so that all groups have as much to do
  matrix,            ///< several tokens, on matrix instructions of bytes
};
/// Rows that a work-group takes together: of a tile, or two tiles.
constexpr int matvec_cut_rows(MatvecWay way) {
  return way == MatvecWay::one_token_halves ? weight_tile_rows / 2
         : way == MatvecWay::matrix         ? weight_tile_rows * 2
                                            : weight_tile_rows;
}
/// Whether MatvecWay::one_token_halves serves the format: its records are whole lines of 128 bytes, and two halves share at
/// most the line of the scales.
constexpr bool takes_halves(WeightFormat format) {
  return format == WeightFormat::q4_0 || format == WeightFormat::q4_1 || format == WeightFormat::q5_1 ||
         format == WeightFormat::iq4_nl;
}
/// Whether MatvecWay::matrix serves the format. With the others too the kernel has not enough scalar registers.
constexpr bool takes_matrix(WeightFormat format) { return format <= WeightFormat::iq4_xs; }
constexpr bool serves(MatvecWay way, WeightFormat format) {
  return way == MatvecWay::one_token_halves ? takes_halves(format) : way == MatvecWay::matrix ? takes_matrix(format) : true;
}
/// Record r of a row belongs to the r % 16-th partial sum, whichever wave computes it.
inline constexpr int partial_sums = 16;

/// One weight of a launch and where its product goes.
struct MatvecPart {
  const std::uint8_t* weight;  ///< as weight_layout.h says
  const float* bias;           ///< [n] or null
  float* out;                  ///< [tokens, n], rows `stride` apart
  std::int64_t stride;
  std::int32_t n;
  std::int32_t first_cut;  ///< of the launch's cuts; meaningless where the first part is the gate
  std::int32_t tile_bytes;
  std::int32_t record_bytes;
  WeightFormat format;
  std::int32_t accumulate;  ///< out += in place of out =
  float scale;              ///< of the whole product
  std::int32_t unused;
};

/// Weights with a few tokens; see matvec_packed.h. Grid: work-groups.
struct MatvecArgs {
  MatvecPart parts[most_matvec_parts];
  const float* x;  ///< [tokens, k], rows x_stride apart
  std::int64_t x_stride;
  const float* norm_weight;  ///< [k]: x is normalised by its root mean square first; or null
  float norm_eps;
  std::int32_t k;
  std::int32_t tokens;
  std::int32_t num_parts;
  std::int32_t cuts;           ///< of all parts; of one where the first is the gate
  std::int32_t gated;          ///< parts[0].out = activation(product of part 0) * product of part 1
  std::int32_t group_cuts;     ///< neighbouring cuts of a work-group; pairs of cuts where `gated`
  std::int32_t batch_cuts;     ///< cuts whose partial sums fit into shared memory together
  std::int32_t chunk_records;  ///< of x in shared memory at a time; even unless it is all of x
  Activation activation;
};

/// Calls of one token in one launch (matvec_chain.h). The work-groups of a call wait until those of the call before it have
/// ended, with their first weights on the way. Grid: the work-groups of all calls, one call after another.
inline constexpr int most_chained = 6;
struct ChainOrder {
  std::int32_t ends[most_chained];  ///< work-groups of the calls up to this one; INT32_MAX behind the last call
  std::uint32_t* counters;          ///< [most_chained], zero
  std::int32_t count;               ///< calls
  std::int32_t unused;
};
/// A norm of one row, by one work-group.
struct ChainedNorm {
  gpu::RmsNormArgs norm;
  std::int32_t threads;  ///< that the kernel rms_norm would have: 64 to 1024, a power of two
  std::int32_t unused;
};
inline constexpr int chained_norm_bytes = 1024 / 32 * 4;  ///< of shared memory: a sum of each wave
/// Call c is calls[c], or the next of `norms` where bit c of `norm_calls` is set.
inline constexpr int most_chained_norms = 2;
struct MatvecChainArgs {
  MatvecArgs calls[most_chained];
  ChainedNorm norms[most_chained_norms];
  ChainOrder order;
  std::uint32_t norm_calls;
  std::int32_t unused;
};

/// Columns of x that shared memory holds at a time, for each of so many tokens: a multiple of two records.
constexpr int matvec_chunk_elems(int tokens) { return 16384 / (tokens <= 1 ? 1 : tokens <= 2 ? 2 : tokens <= 4 ? 4 : 8); }

/// A record of a token's activations in shared memory: 16-bit codes in two bytes (each piece's upper bytes of elements 0..15
/// and 16..31, then the lower ones; each of these four [piece] 16 bytes), then [piece] scale, sums of the codes of elements
/// 0..15 and 16..31 and of both, as floats.
inline constexpr int image_record_bytes = record_elems * 2 + record_pieces * 16;

/// Where the parts of a work-group's shared memory begin, in bytes. It starts with the image of the activations.
struct MatvecShared {
  int token_bytes;  ///< from one token's image to the next one's
  int partials;     ///< [items][partial_sums][tokens][matvec_cut_rows] floats
  int squares;      ///< [tokens][records] sums of x^2
  int factors;      ///< [tokens] of the norm
  int bytes;
};

/// Tokens that the matrix way multiplies at once, and so many of `tokens` rounded up to a multiple of that.
constexpr int matrix_product_tokens(int wave_size) { return wave_size == 64 ? 2 : 4; }
constexpr int matrix_tokens(int tokens, int wave_size) {
  const int together = matrix_product_tokens(wave_size);
  return (tokens + together - 1) / together * together;
}
/// The image of the matrix way has the tokens of a record side by side. First all codes: [piece][product of tokens] [half of
/// the piece][token][upper, lower bytes] 16 bytes; then floats [piece][product of tokens] three times [token]: scales, sums
/// of the codes, sums of the codes of elements 16 to 31.
constexpr int matrix_code_bytes(int padded_tokens) { return record_elems * 2 * padded_tokens; }
constexpr int matrix_record_bytes(int padded_tokens) {
  return matrix_code_bytes(padded_tokens) + record_pieces * 3 * 4 * padded_tokens;
}
/// Before the image: the norm's factors, and zeros for the lanes whose column is of another piece. These zeros are in other
/// banks than the piece's columns where an instruction takes two tokens.
inline constexpr int matrix_zeros = 64;
inline constexpr int matrix_image = 256;

/// `records` of a chunk, `all_records` of k, `items`: cuts of a batch, pairs counted twice.
constexpr MatvecShared matvec_shared(int tokens, int cut_rows, int records, int all_records, int items) {
  MatvecShared shared{};
  shared.token_bytes = (records + 1) / 2 * 2 * image_record_bytes;
  shared.partials = tokens * shared.token_bytes;
  shared.squares = shared.partials + items * partial_sums * tokens * cut_rows * 4;
  shared.factors = shared.squares + tokens * all_records * 4;
  shared.bytes = shared.factors + most_matvec_tokens * 4;
  return shared;
}

/// The same for the matrix way, with the image at matrix_image.
constexpr MatvecShared matrix_shared(int tokens, int padded_tokens, int records, int all_records, int items) {
  MatvecShared shared{};
  shared.partials = matrix_image + records * matrix_record_bytes(padded_tokens);
  shared.squares = shared.partials + items * partial_sums * tokens * matvec_cut_rows(MatvecWay::matrix) * 4;
  shared.bytes = shared.squares + tokens * all_records * 4;
  return shared;
}

}  // namespace rocmforge::amd
