#pragma once

// Activations as codes of 16 bits in shared memory, each 32 with a scale and their sums (matvec_args.h). A norm's factor is
// left to the products: codes do not depend on it.

#include "kernels/amd/matvec_args.h"
#include "kernels/amd/tile.h"

namespace rocmforge::amd {

/// 32 lanes take a record together, eight elements each: teams.
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

/// Of record `record` of token t; zeros from k on. Rows are whole pieces.
__device__ inline void load_activations(const MatvecArgs& args, int t, int record, Activations& loaded) {
  const int first = record * record_elems + (gpu::thread_index() % team_lanes) * lane_elems;
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
__device__ inline PieceSums piece_sums(int sum) {
  sum += exchange<1>(sum);
  const int other = exchange<2>(sum);
  return (gpu::thread_index() & 2) == 0 ? PieceSums{sum, other} : PieceSums{other, sum};
}

/// Quantises a lane's elements into its record of the image; with a norm sums up the record's squares. `Args` has
/// norm_weight.
template <class Args>
__device__ inline void quantise(const Args& args, Activations& loaded, std::uint8_t* record, float* square) {
  const int lane = gpu::thread_index() % team_lanes;
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
  std::uint32_t largest = 0;  // of the magnitudes' bits, so that what is not a number is the largest of all
#pragma unroll
  for (int i = 0; i < lane_elems; ++i) {
    largest = max(largest, __builtin_bit_cast(std::uint32_t, loaded.values[i]) & 0x7fffffffu);
  }
  largest = max(largest, static_cast<std::uint32_t>(exchange<1>(static_cast<int>(largest))));
  largest = max(largest, static_cast<std::uint32_t>(exchange<2>(static_cast<int>(largest))));
  constexpr float largest_code = 127.0f * 256.0f + 127.0f;
  const float magnitude = __builtin_bit_cast(float, largest);
  const float inverse = magnitude > 1e-33f ? largest_code / magnitude : 0.0f;
  std::uint32_t upper[2] = {};
  std::uint32_t lower[2] = {};
  int sum = 0;
#pragma unroll
  for (int i = 0; i < lane_elems; ++i) {
    const int code = static_cast<int>(rintf(loaded.values[i] * inverse));
    sum += code;
    // code = 256 * upper + lower, both signed bytes.
    upper[i / 4] |= (static_cast<std::uint32_t>(code + 128) >> 8 & 255u) << 8 * (i % 4);
    lower[i / 4] |= (static_cast<std::uint32_t>(code) & 255u) << 8 * (i % 4);
  }
  const PieceSums sums = piece_sums(sum);
  constexpr int plane = record_pieces * 16;
  std::uint8_t* codes = record + (lane % 4 / 2) * plane + piece * 16 + (lane % 2) * 8;
  *reinterpret_cast<uint2*>(codes) = {upper[0], upper[1]};
  *reinterpret_cast<uint2*>(codes + 2 * plane) = {lower[0], lower[1]};
  if (lane % 4 == 0) {
    reinterpret_cast<float4*>(record + 4 * plane)[piece] = {magnitude / largest_code, static_cast<float>(sums.low),
                                                            static_cast<float>(sums.high),
                                                            static_cast<float>(sums.low + sums.high)};
  }
}

/// Where records [first, first + count) of all tokens go, and one of zeros behind an odd number of them.
struct Stage {
  const MatvecArgs& args;
  const MatvecShared& shared;
  std::uint8_t* memory;
  int tokens;
  int first;
  int count;
  int all_records;

  __device__ int padded() const { return (count + 1) / 2 * 2; }

  /// Record `record` of the chunk, which `loaded` holds.
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
                                    int all_records) {
  const int team = gpu::thread_index() / team_lanes;
  const int lane = gpu::thread_index() % team_lanes;
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
