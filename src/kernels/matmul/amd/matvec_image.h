#pragma once

// Activations as codes of 16 bits in shared memory, 32 of them with one scale and their sums (matvec_args.h). The products
// apply a norm's factor: codes do not depend on it.

#include "kernels/matmul/amd/matvec_args.h"
#include "kernels/tile/amd/tile.h"

namespace rocmforge::amd {

/// A team of 32 lanes takes a record, eight elements each.
inline constexpr int team_lanes = 32;
inline constexpr int teams = matvec_threads / team_lanes;
inline constexpr int lane_elems = record_elems / team_lanes;

/// A lane's elements of a record, and the norm's weights for them.
struct Activations {
  float values[lane_elems];
  float weights[lane_elems];
};

__device__ inline void load_eight(const float* from, float (&values)[lane_elems]) {
#pragma unroll
  for (int i = 0; i < lane_elems; ++i) {  // becomes loads of 16 bytes, which need no more than the alignment of a float
    values[i] = ((Global<const float>)from)[i];
  }
}

/// Loads record `record` of token t; zeros from k on. Rows are whole pieces. `Args` has x, x_stride, norm_weight and k.
template <class Args>
__device__ inline void load_activations(const Args& args, int t, int record, Activations& loaded,
                                        int thread = gpu::thread_index()) {
  const int first = record * record_elems + (thread % team_lanes) * lane_elems;
  if (first < args.k) {
    load_eight(args.x + t * args.x_stride + first, loaded.values);
    if (args.norm_weight != nullptr) {
      load_eight(args.norm_weight + first, loaded.weights);
    }
  } else {
#pragma unroll
    for (int i = 0; i < lane_elems; ++i) {
      loaded.values[i] = 0.0f;
      loaded.weights[i] = 0.0f;
    }
  }
}

/// The sum over the four lanes of a piece, the lower or upper two of which hold 16 elements: {lower, upper}.
struct PieceSums {
  int low;
  int high;
};
__device__ inline PieceSums piece_sums(int sum, int thread = gpu::thread_index()) {
  sum += exchange<1>(sum);
  const int other = exchange<2>(sum);
  return (thread & 2) == 0 ? PieceSums{sum, other} : PieceSums{other, sum};
}

inline constexpr float largest_code = 127.0f * 256.0f + 127.0f;

/// Quantises a lane's elements; with a norm sums up the record's squares. Calls put(lane, piece, upper, lower, magnitude,
/// sums) with two words each of the signed bytes of codes = 256 * upper + lower, and the largest magnitude and the sums of
/// the codes of the piece. `Args` has norm_weight.
template <class Args, class Put>
__device__ __forceinline__ void quantise_to(const Args& args, Activations& loaded, float* square, int thread,
                                            const Put& put) {
  const int lane = thread % team_lanes;
  const int piece = lane / 4;
  if (args.norm_weight != nullptr) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < lane_elems; ++i) {
      squares = fmaf(loaded.values[i], loaded.values[i], squares);
      loaded.values[i] *= loaded.weights[i];
    }
    squares = gpu::wave_reduce<gpu::Sum, team_lanes>(squares);
    if (lane == 0 && square != nullptr) {
      *square = squares;
    }
  }
  std::uint32_t largest = 0;  // of the magnitudes' bits, so that NaN is the largest of all
#pragma unroll
  for (int i = 0; i < lane_elems; ++i) {
    largest = max(largest, __builtin_bit_cast(std::uint32_t, loaded.values[i]) & 0x7fffffffu);
  }
  largest = max(largest, static_cast<std::uint32_t>(exchange<1>(static_cast<int>(largest))));
  largest = max(largest, static_cast<std::uint32_t>(exchange<2>(static_cast<int>(largest))));
  const float magnitude = __builtin_bit_cast(float, largest);
  const float inverse = magnitude > 1e-33f ? largest_code / magnitude : 0.0f;
  std::uint32_t upper[2] = {};
  std::uint32_t lower[2] = {};
  int sum = 0;
#pragma unroll
  for (int i = 0; i < lane_elems; ++i) {
    const int code = static_cast<int>(rintf(loaded.values[i] * inverse));
    sum += code;
    upper[i / 4] |= (static_cast<std::uint32_t>(code + 128) >> 8 & 255u) << 8 * (i % 4);
    lower[i / 4] |= (static_cast<std::uint32_t>(code) & 255u) << 8 * (i % 4);
  }
  put(lane, piece, upper, lower, magnitude, piece_sums(sum, thread));
}

/// Quantises a lane's elements into its record of the image.
template <class Args>
__device__ inline void quantise(const Args& args, Activations& loaded, std::uint8_t* record, float* square) {
  quantise_to(
      args, loaded, square, gpu::thread_index(),
      [&](int lane, int piece, const std::uint32_t(&upper)[2], const std::uint32_t(&lower)[2], float magnitude,
          const PieceSums& sums) __attribute__((always_inline)) {
        constexpr int plane = record_pieces * 16;
        std::uint8_t* codes = record + (lane % 4 / 2) * plane + piece * 16 + (lane % 2) * 8;
        *reinterpret_cast<uint2*>(codes) = {upper[0], upper[1]};
        *reinterpret_cast<uint2*>(codes + 2 * plane) = {lower[0], lower[1]};
        if (lane % 4 == 0) {
          reinterpret_cast<float4*>(record + 4 * plane)[piece] = {magnitude / largest_code, static_cast<float>(sums.low),
                                                                  static_cast<float>(sums.high),
                                                                  static_cast<float>(sums.low + sums.high)};
        }
      });
}

/// The places of records [first, first + count) of all tokens, and of a record of zeros after an odd number of them.
struct Stage {
  const MatvecArgs& args;
  const MatvecShared& shared;
  std::uint8_t* memory;
  int tokens;
  int first;
  int count;
  int all_records;

  __device__ int padded() const { return (count + 1) / 2 * 2; }

  /// Stores record `record` of the chunk, held in `loaded`.
  __device__ __forceinline__ void put(int t, int record, Activations& loaded) const {
    float* squares = reinterpret_cast<float*>(memory + shared.squares) + t * all_records + first + record;
    quantise(args, loaded, memory + t * shared.token_bytes + record * image_record_bytes,
             record < count ? squares : nullptr);
  }

  /// All records but token 0's first `rounds` of each team.
  __device__ __forceinline__ void put_others(int rounds) const {
    int record = gpu::thread_index() / team_lanes + rounds * teams;
    for (int t = 0; t < tokens; ++t) {
      for (; record < padded(); record += teams) {
        Activations loaded;
        load_activations(args, t, first + record, loaded);
        put(t, record, loaded);
      }
      record = gpu::thread_index() / team_lanes;
    }
  }
};

/// The factors of the norm, from the squares of all records.
__device__ inline void find_factors(const MatvecArgs& args, const MatvecShared& shared, std::uint8_t* memory, int tokens,
                                    int all_records, int thread = gpu::thread_index()) {
  const int team = thread / team_lanes;
  const int lane = thread % team_lanes;
  if (team >= tokens) {
    return;
  }
  float factor = 1.0f;
  if (args.norm_weight != nullptr) {
    const float* squares = reinterpret_cast<const float*>(memory + shared.squares) + team * all_records;
    float sum = 0.0f;
    for (int r = lane; r < all_records; r += team_lanes) {
      sum += squares[r];
    }
    sum = gpu::wave_reduce<gpu::Sum, team_lanes>(sum);
    factor = 1.0f / sqrtf(sum / static_cast<float>(args.k) + args.norm_eps);
  }
  if (lane == 0) {
    reinterpret_cast<float*>(memory + shared.factors)[team] = factor;
  }
}

}  // namespace rocmforge::amd
