#pragma once

// Adds up partial softmaxes of decode attention: those of the waves of a work-group, and those of the pieces of a row. See
// attention_decode.h.

#include "kernels/attention/amd/attention_decode_keys.h"

namespace rocmforge::amd {

/// Parts of a row's softmax side by side, added up in their order: `count` maxima and sums of weights of a head, one after
/// another, and sums of one output `apart` floats from each other.
struct SoftmaxParts {
  const float* maxima;
  const float* weights;
  const float* sums;
  int count;
  int apart;
};
template <int unrolled>
__device__ __forceinline__ float add_up(const SoftmaxParts& parts, float& maximum, float& weight) {
  maximum = -gpu::infinity;
#pragma unroll unrolled
  for (int p = 0; p < parts.count; ++p) {
    maximum = fmaxf(maximum, parts.maxima[p]);
  }
  const float subtract = gpu::finite_maximum(maximum);
  weight = 0.0f;
  float sum = 0.0f;
#pragma unroll unrolled
  for (int p = 0; p < parts.count; ++p) {
    const float factor = gpu::exp2_fast(parts.maxima[p] - subtract);
    weight = __builtin_fmaf(parts.weights[p], factor, weight);
    sum = __builtin_fmaf(parts.sums[p * parts.apart], factor, sum);
  }
  return sum;
}

/// The sums that the work-groups of a row leave in the workspace for the last of them.
struct PieceSums {
  float* sums;     ///< [piece][head][head_dim]
  float* maxima;   ///< [head][most pieces of a row]
  float* weights;  ///< as maxima
  int most;        ///< pieces of the longest row
};
template <class Shape>
__device__ __forceinline__ PieceSums piece_sums(const gpu::AttentionArgs& args, int item) {
  PieceSums pieces{};
  pieces.most = static_cast<int>(gridDim.x);
  const std::int64_t first_part = std::int64_t{item} * pieces.most * Shape::heads;
  pieces.sums = args.partial_sums + first_part * args.head_dim;
  pieces.maxima = args.partial_states + first_part * 2;
  pieces.weights = pieces.maxima + Shape::heads * pieces.most;
  return pieces;
}

template <class Shape>
struct PieceShared {
  static constexpr int parts = Shape::heads * Shape::dims <= 512 ? 4 : 1;  ///< of the pieces, each of other threads
  static constexpr int at_once = gpu::wave_size == 64 ? 10 : 4;  ///< pieces that a thread reads: a device's share of a head
  static constexpr int most_read = (most_decode_pieces + parts * at_once - 1) / (parts * at_once) * parts * at_once;
  float factors[Shape::heads][most_read];  ///< 0 behind the last piece
  float maxima[Shape::heads];
  float weights[Shape::heads];
};

/// Adds up a row's pieces. A wave computes the factors of a head's pieces, and a thread adds four neighbouring outputs of
/// every fourth piece, or of all pieces where there are fewer threads. Its first loads are issued before the factors are
/// known. The order of the sums depends on the number of pieces, and not on the number of heads where their work-groups have
/// as many threads.
template <class Shape>
class PieceAdder {
 public:
  static constexpr int outputs = Shape::heads * Shape::dims;
  static constexpr int parts = PieceShared<Shape>::parts;
  static constexpr int at_once = PieceShared<Shape>::at_once;
  static constexpr int most_read = PieceShared<Shape>::most_read;
  static_assert(parts * outputs / 4 <= Shape::threads || parts == 1);
  static_assert(parts <= Shape::waves);

  /// `scratch`: [parts][outputs], shared.
  __device__ __forceinline__ PieceAdder(const PieceSums& pieces, int count, int heads, int head_dim,
                                        PieceShared<Shape>& shared, float* scratch)
      : pieces_(pieces), count_(count), heads_(heads), head_dim_(head_dim), shared_(shared), scratch_(scratch) {}

  /// Calls take(head, dim, sum, maximum, weight) for each output of the work-group.
  template <class Take>
  __device__ __forceinline__ void run(const Take& take) {
    constexpr int units = parts * outputs / 4;
    int unit = gpu::thread_index();
    const int wave = uniform(gpu::wave_index());
    read_states(min(wave, heads_ - 1));
    load(unit, 0);
    for (int g = wave; g < heads_; g += Shape::waves) {
      if (g != wave) {
        read_states(g);
      }
      find_factors(g);
    }
    sync_shared();
    for (; unit < units; unit += Shape::threads) {
      if (unit != gpu::thread_index()) {
        load(unit, 0);
      }
      float sums[4] = {};
      const int head = min(unit % (outputs / 4) / (Shape::dims / 4), heads_ - 1);
      for (int first = 0;;) {
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          const float factor = shared_.factors[head][piece_of(unit, first, i)];
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            sums[j] = __builtin_fmaf(__builtin_bit_cast(float, std::uint32_t{read_[i].words[j]}), factor, sums[j]);
          }
        }
        first += at_once * parts;
        if (first >= count_) {
          break;
        }
        load(unit, first);
      }
      store(unit, sums, take);
    }
    if constexpr (parts > 1) {
      sync_shared();
      for (int i = gpu::thread_index(); i < outputs; i += Shape::threads) {
        float sum = 0.0f;
#pragma unroll
        for (int part = 0; part < parts; ++part) {
          sum += scratch_[part * outputs + i];
        }
        finish(i, sum, take);
      }
    }
  }

 private:
  static constexpr int each = (most_read + gpu::wave_size - 1) / gpu::wave_size;

  __device__ __forceinline__ static int piece_of(int unit, int first, int i) {
    return first + i * parts + unit / (outputs / 4);
  }
  /// Pieces, heads and dimensions after the last are loaded as the last.
  __device__ __forceinline__ void load(int unit, int first) {
    const int quad = unit % (outputs / 4);
    const int head = min(quad / (Shape::dims / 4), heads_ - 1);
    const int dim = min(quad % (Shape::dims / 4) * 4, head_dim_ - 4);
    const auto from = (Global<const float>)pieces_.sums + head * head_dim_ + dim;
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int piece = min(piece_of(unit, first, i), count_ - 1);
      read_[i] = *(const gpu::Bytes16*)(from + piece * Shape::heads * head_dim_);
    }
  }
  /// Loads the maxima and weights of a head's pieces, one or two of them in a lane.
  __device__ __forceinline__ void read_states(int g) {
    const auto maxima = (Global<const float>)pieces_.maxima + g * pieces_.most;
    const auto weights = (Global<const float>)pieces_.weights + g * pieces_.most;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int piece = min(gpu::lane_index() + i * gpu::wave_size, count_ - 1);
      maxima_[i] = maxima[piece];
      weights_[i] = weights[piece];
    }
  }
  __device__ __forceinline__ void find_factors(int g) {
    float maximum = -gpu::infinity;
#pragma unroll
    for (const float of_piece : maxima_) {
      maximum = fmaxf(maximum, of_piece);
    }
    maximum = gpu::wave_reduce<gpu::Max>(maximum);
    float weight = 0.0f;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int piece = gpu::lane_index() + i * gpu::wave_size;
      const float factor = piece < count_ ? gpu::exp2_fast(maxima_[i] - gpu::finite_maximum(maximum)) : 0.0f;
      if (piece < most_read) {
        shared_.factors[g][piece] = factor;
      }
      weight = __builtin_fmaf(weights_[i], factor, weight);
    }
    weight = gpu::wave_reduce<gpu::Sum>(weight);
    if (gpu::lane_index() == 0) {
      shared_.maxima[g] = maximum;
      shared_.weights[g] = weight;
    }
  }
  template <class Take>
  __device__ __forceinline__ void store(int unit, const float (&sums)[4], const Take& take) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (parts > 1) {
        scratch_[unit * 4 + j] = sums[j];
      } else {
        finish(unit * 4 + j, sums[j], take);
      }
    }
  }
  template <class Take>
  __device__ __forceinline__ void finish(int i, float sum, const Take& take) {
    const int g = i / Shape::dims;
    const int d = i % Shape::dims;
    if (g < heads_ && d < head_dim_) {
      take(g, d, sum, shared_.maxima[g], shared_.weights[g]);
    }
  }

  PieceSums pieces_;
  int count_;
  int heads_;
  int head_dim_;
  PieceShared<Shape>& shared_;
  float* scratch_;
  gpu::Bytes16 read_[at_once];
  float maxima_[each];
  float weights_[each];
};

}  // namespace rocmforge::amd
