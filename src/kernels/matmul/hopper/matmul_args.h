#pragma once

#include <cstdint>

#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/matmul/hopper/gate.h"

namespace rocmforge::hopper {

inline constexpr int most_matvec_parts = 4;
inline constexpr int most_matvec_tokens = 8;
/// Warps of a work-group that multiply.
inline constexpr int matvec_warps = 8;
inline constexpr int matvec_threads = 32 * matvec_warps;
/// Tiles whose sums are added up at a time.
inline constexpr int matvec_chunk = 2;

/// Which product is the gate.
enum class GateSource : std::int32_t {
  first_part,  ///< parts[0].out = activation(product of part 0) * product of part 1
  out,         ///< parts[0].out = activation(parts[0].out) * product of part 0
};

/// The norm after an earlier product, see MatmulPostNorm.
struct MatvecPostNorm {
  const float* y;  ///< [tokens, k], rows y_stride apart; null: there is none
  std::int64_t y_stride;
  const float* weight;  ///< [k]
  float* out;           ///< [tokens, k], rows out_stride apart
  std::int64_t out_stride;
  float epsilon;
  float factor;
  float scale;
  std::int32_t unused;
};

/// The activations of a product.
struct MatvecInput {
  const float* x;  ///< [tokens, k], rows x_stride apart
  std::int64_t x_stride;
  const float* norm_weight;  ///< [k]: x is normalised by its root mean square first; or null
  float norm_epsilon;
  std::int32_t k;
  std::int32_t tokens;
  std::int32_t aligned;  ///< x, its rows, norm_weight and all of post_norm start at 16-byte boundaries
  MatvecPostNorm post_norm;
};

/// One weight of a launch and where its product goes.
struct MatvecPart {
  const std::uint8_t* weight;  ///< as weight_layout.h says; binary16 or bfloat16 [n, k] for matvec_half
  const float* bias;           ///< [n] or null
  float* out;                  ///< [tokens, n], rows `stride` apart
  std::int64_t stride;
  std::int32_t n;
  std::int32_t first_tile;  ///< of the launch's tiles; meaningless where the first part is the gate
  std::int32_t tile_bytes;  ///< of 16 rows
  std::int32_t step_bytes;  ///< of them and matvec_step columns; meaningless to matvec_half, as is the format
  WeightFormat format;
  std::int32_t accumulate;  ///< out += in place of out =
  std::int32_t unused;
};

/// Weights with 1, 2, 4 or 8 tokens; see matvec_packed.cu and matvec_half.cu. Grid: work-groups that walk over the tiles.
struct MatvecArgs {
  MatvecPart parts[most_matvec_parts];
  MatvecInput input;  ///< at most as many tokens as the kernel's name says
  const std::uint8_t*
      image;  ///< what QuantiseArgs wrote for the kernel's number of tokens; null: the kernel quantises itself
  std::int32_t num_parts;
  std::int32_t tiles;  ///< of all parts; of one where the first is the gate
  std::int32_t slots;
  std::int32_t slot_bytes;  ///< for each step
  Gate gate;
  GateSource gate_source;
};

/// Whether matvec_packed reads quantised activations: with few tokens every work-group quantises them itself while its first
/// weights are in flight.
constexpr bool takes_image(int tokens) { return tokens > 2; }

/// Whether matvec_half reads the sums of post-norms that matvec_sums has written: each of its work-groups reads its input
/// twice, and the inputs of more tokens don't stay in the first-level cache.
constexpr bool takes_sums(int tokens) { return tokens > 2; }

/// Halves of the sums in shared memory, of matvec_chunk tiles each: one is added up while the other is written.
inline constexpr int matvec_halves = 2;
/// Arrivals that complete a phase of the barriers of matvec_roles.h.
struct MatvecArrivals {
  static constexpr int image = 1;                     ///< the warp that fetches, and the bytes
  static constexpr int sums_complete = matvec_warps;  ///< of a half
  static constexpr int sums_free = 1;                 ///< the warp that writes
  static constexpr int slot_full = 1;                 ///< the warp that fetches, and the bytes
  static constexpr int slot_free = matvec_warps;      ///< each has a step of the slot
};
/// The first step, and the partial sum, of a warp in the next tile: steps of all tiles go round the warps.
constexpr int next_first(int first, int steps) { return (first + matvec_warps - steps % matvec_warps) % matvec_warps; }

/// Columns of a step: what a warp multiplies at a time.
inline constexpr int matvec_step = 256;
/// Steps of a slot, one for each warp.
inline constexpr int matvec_slot_steps = matvec_warps;
/// Beside the warps that multiply one fetches weights and one writes outputs.
inline constexpr int matvec_all_threads = matvec_threads + 64;

constexpr int matvec_steps(int k) { return (k + matvec_step - 1) / matvec_step; }

/// Where the parts of a work-group's shared memory begin, in bytes. It starts with the image of the activations: of each
/// token the codes of its blocks (32 bytes of upper, 32 of lower 8 bits), then of each token a scale and a sum of each
/// block, then of each token sums of squares.
struct MatvecShared {
  int token_bytes;       ///< from one token's codes to the next one's: apart by half the banks
  int token_info_bytes;  ///< from one token's scales and sums to the next one's
  int info;
  int squares;
  int image_bytes;
  int sums;
  int barriers;  ///< of the image, two for each half of the sums, two for each slot
  int ring;
  int bytes;
};

constexpr MatvecShared matvec_shared(int tokens, int k, int slots, int slot_bytes) {
  const int steps = matvec_steps(k);
  MatvecShared shared{};
  shared.token_bytes = steps * matvec_step * 2 + 64;
  shared.token_info_bytes = steps * (matvec_step / 32) * 8 + 16;
  shared.info = tokens * shared.token_bytes;
  shared.squares = shared.info + tokens * shared.token_info_bytes;
  shared.image_bytes = shared.squares + tokens * matvec_warps * 4;
  shared.sums = shared.image_bytes;
  shared.barriers = shared.sums + 2 * matvec_chunk * matvec_warps * weight_tile_rows * tokens * 4;
  shared.ring = (shared.barriers + (5 + 2 * slots) * 8 + 127) / 128 * 128;
  shared.bytes = shared.ring + slots * matvec_slot_steps * slot_bytes;
  return shared;
}

/// Quantises activations into the layout that a kernel for `tokens` tokens reads, those that are missing as zeros. Grid:
/// slices of 8 * matvec_threads columns, tokens.
struct QuantiseArgs {
  MatvecInput input;
  std::uint8_t* image;
  std::int32_t tokens;
  std::int32_t unused;
};

/// The same for weights of 16 bits: columns of a step, bytes from a row to the next one in a slot (apart by half the banks).
inline constexpr int matvec_half_step = 128;
inline constexpr int matvec_half_row_bytes = matvec_slot_steps * matvec_half_step * 2 + 64;
inline constexpr int matvec_half_slot_bytes = weight_tile_rows * matvec_half_row_bytes;

/// There is no image: the activations are elements of 16 bits, and at `info` are the factors of the tokens.
constexpr MatvecShared matvec_half_shared(int tokens, int k, int slots) {
  MatvecShared shared{};
  shared.token_bytes = (k + matvec_half_step - 1) / matvec_half_step * matvec_half_step * 2 + 64;
  shared.info = tokens * shared.token_bytes;
  shared.sums = shared.info + 32;
  shared.barriers = shared.sums + 2 * matvec_chunk * matvec_warps * weight_tile_rows * tokens * 4;
  shared.ring = (shared.barriers + (5 + 2 * slots) * 8 + 127) / 128 * 128;
  shared.bytes = shared.ring + slots * matvec_half_slot_bytes;
  return shared;
}

}  // namespace rocmforge::hopper
