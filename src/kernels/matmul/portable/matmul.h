#pragma once

// Products of weights with many tokens, on matrix tiles of 16-bit elements with sums in float.
//
// A work-group computes a tile of tokens x rows. Per step of k, the next weights and activations travel from global memory
// into registers while the current step is multiplied out of shared memory; then the weights are dequantised on their way
// into the other half of shared memory, once for all tokens of the tile. Every output element is summed along k in steps of
// 16, whatever the tile: its bits do not depend on the number of tokens.

#include "kernels/matmul/portable/matvec.h"
#include "kernels/tile/tile.h"

namespace rocmforge::gpu {

/// Elements between rows of shared memory beyond k_step: 16 bytes, so that neighbouring rows start in different banks.
inline constexpr int row_padding = 8;

/// One strip of weights, dequantised, as 32 bytes of shared memory.
template <class Strips, class Element>
__device__ inline void store_strip(const typename Strips::Raw& raw, int part, std::uint16_t* to) {
  const Affine affine = Strips::affine(raw, part);
  std::uint32_t words[8];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    float values[4];
    Strips::values(raw, part, w, values);
    if constexpr (__is_same(Strips, WeightStrips<BlockF16>) || __is_same(Strips, WeightStrips<BlockBF16>)) {
      words[2 * w] = raw.words[2 * w];
      words[2 * w + 1] = raw.words[2 * w + 1];
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[i] = fmaf(affine.scale, values[i], affine.offset);
      }
      words[2 * w] = pack_pair<Element>(values[0], values[1]);
      words[2 * w + 1] = pack_pair<Element>(values[2], values[3]);
    }
  }
  reinterpret_cast<uint4*>(to)[0] = uint4{words[0], words[1], words[2], words[3]};
  reinterpret_cast<uint4*>(to)[1] = uint4{words[4], words[5], words[6], words[7]};
}

/// Stores one sum of a tile, unless it lies outside of the call.
__device__ __forceinline__ void store_output(const MatmulTileArgs& args, const MatmulPart& part, int token, int row,
                                             float sum) {
  if (token < args.tokens && row < part.n) {
    float* out = part.out + token * part.stride + row;
    const float bias = part.bias != nullptr ? part.bias[row] : 0.0f;
    const float y = fmaf(sum, args.x_scales[token] * part.scale, bias);
    *out = part.accumulate != 0 ? *out + y : y;
  }
}

template <class Block, class Element, const MatmulTileShape& shape>
struct MatmulTile {
  using Strips = WeightStrips<Block>;
  using Tile = MatrixTile<Element>;
  static constexpr int waves = shape.threads / wave_size;
  static constexpr int waves_along_rows = waves / shape.waves_along_tokens;
  static constexpr int wave_tokens = shape.tokens / shape.waves_along_tokens;
  static constexpr int wave_rows = shape.rows / waves_along_rows;
  static constexpr int token_tiles = wave_tokens / 16;
  static constexpr int row_tiles = wave_rows / 16;
  static constexpr int stride = shape.k_step + row_padding;
  static constexpr int step_strips = shape.k_step / strip_elems;
  static constexpr int thread_strips = shape.rows * step_strips / shape.threads;         ///< of weights, in a step
  static constexpr int thread_pieces = shape.tokens * shape.k_step / 8 / shape.threads;  ///< 16 bytes of x each, in a step
  static_assert(waves_along_rows * shape.waves_along_tokens == waves && wave_tokens % 16 == 0 && wave_rows % 16 == 0);
  static_assert(thread_strips * shape.threads == shape.rows * step_strips && matmul_k_padding % shape.k_step == 0);
  static_assert(thread_pieces * shape.threads * 8 == shape.tokens * shape.k_step);

  struct Shared {
    alignas(16) std::uint16_t x[2][shape.tokens * stride];
    alignas(16) std::uint16_t weights[2][shape.rows * stride];
  };
  static_assert(sizeof(Shared) <= 48 * 1024);

  struct Loads {
    typename Strips::Raw weights[thread_strips];
    uint4 x[thread_pieces];
  };

  const MatmulTileArgs& args;
  MatmulPart part;
  int first_token;
  int first_row;

  __device__ static int strip_row(int i) { return (thread_index() + i * shape.threads) / step_strips; }
  __device__ static int strip_of_step(int i) { return (thread_index() + i * shape.threads) % step_strips; }
  __device__ static int piece_token(int i) { return (thread_index() + i * shape.threads) / (shape.k_step / 8); }
  __device__ static int piece_of_step(int i) { return (thread_index() + i * shape.threads) % (shape.k_step / 8); }

  __device__ void load(int step, Loads& loads) const {
#pragma unroll
    for (int i = 0; i < thread_strips; ++i) {
      const int row = min(first_row + strip_row(i), part.n - 1);
      const int strip_index = step * step_strips + strip_of_step(i);
      if (strip_index * strip_elems < args.k) {
        if constexpr (requires { Strips::load_row(part, row, 0); }) {  // rows do not follow one another
          loads.weights[i] = Strips::load_row(part, row, Strips::unit_of(strip_index));
        } else {
          const std::uint8_t* const from[] = {part.weight + row * part.row_bytes};
          typename Strips::Raw raw[1];
          load_units<Strips>(args, from, Strips::unit_of(strip_index), raw);
          loads.weights[i] = raw[0];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < thread_pieces; ++i) {
      const std::int64_t token = min(first_token + piece_token(i), args.tokens - 1);
      loads.x[i] =
          *reinterpret_cast<const uint4*>(args.x + token * args.padded_k + step * shape.k_step + 8 * piece_of_step(i));
    }
  }

  __device__ void store(int step, const Loads& loads, Shared& shared) const {
#pragma unroll
    for (int i = 0; i < thread_strips; ++i) {
      std::uint16_t* to = shared.weights[step & 1] + strip_row(i) * stride + strip_elems * strip_of_step(i);
      const int strip_index = step * step_strips + strip_of_step(i);
      if (strip_index * strip_elems < args.k) {
        store_strip<Strips, Element>(loads.weights[i], Strips::part_of(strip_index), to);
      } else {
        reinterpret_cast<uint4*>(to)[0] = uint4{0, 0, 0, 0};
        reinterpret_cast<uint4*>(to)[1] = uint4{0, 0, 0, 0};
      }
    }
#pragma unroll
    for (int i = 0; i < thread_pieces; ++i) {
      *reinterpret_cast<uint4*>(shared.x[step & 1] + piece_token(i) * stride + 8 * piece_of_step(i)) = loads.x[i];
    }
  }

  /// Calls write(token, row, sum) for every output of the tile, those outside of the call included.
  template <class Write>
  __device__ void run(Shared& shared, const Write& write) const {
    const int token_of_wave = wave_index() / waves_along_rows * wave_tokens;
    const int row_of_wave = wave_index() % waves_along_rows * wave_rows;
    typename Tile::C sums[token_tiles][row_tiles];
#pragma unroll
    for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
      for (int r = 0; r < row_tiles; ++r) {
        sums[t][r] = Tile::zero();
      }
    }
    const int steps = (args.k + shape.k_step - 1) / shape.k_step;
    Loads loads;
    load(0, loads);
    store(0, loads, shared);
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
      if (step + 1 < steps) {
        load(step + 1, loads);
      }
      const auto* x = reinterpret_cast<const Element*>(shared.x[step & 1]) + token_of_wave * stride;
      const auto* weights = reinterpret_cast<const Element*>(shared.weights[step & 1]) + row_of_wave * stride;
#pragma unroll
      for (int k = 0; k < shape.k_step; k += 16) {
        typename Tile::B b[row_tiles];
#pragma unroll
        for (int r = 0; r < row_tiles; ++r) {
          b[r] = Tile::load_b(weights + 16 * r * stride + k, stride);
        }
#pragma unroll
        for (int t = 0; t < token_tiles; ++t) {
          const typename Tile::A a = Tile::load_a(x + 16 * t * stride + k, stride);
#pragma unroll
          for (int r = 0; r < row_tiles; ++r) {
            Tile::multiply(sums[t][r], a, b[r]);
          }
        }
      }
      if (step + 1 < steps) {
        store(step + 1, loads, shared);
      }
      __syncthreads();
    }
#pragma unroll
    for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
      for (int r = 0; r < row_tiles; ++r) {
#pragma unroll
        for (int i = 0; i < Tile::c_elems; ++i) {
          write(first_token + token_of_wave + 16 * t + Tile::c_row(i), first_row + row_of_wave + 16 * r + Tile::c_col(i),
                sums[t][r][i]);
        }
      }
    }
  }
};

template <class Block, class Element, const MatmulTileShape& shape>
__device__ inline void matmul_tile(const MatmulTileArgs& args) {
  using Body = MatmulTile<Block, Element, shape>;
  __shared__ typename Body::Shared shared;
  const MatmulPart part = part_of_tile(args, static_cast<int>(blockIdx.y));
  const Body body{args, part, static_cast<int>(blockIdx.x) * shape.tokens,
                  (static_cast<int>(blockIdx.y) - part.first_tile) * shape.rows};
  body.run(shared, [&](int token, int row, float sum) { store_output(args, part, token, row, sum); });
}

/// Whether a row of numbers up to this does not fit binary16, which ends at 65504. One with infinite numbers stays as it is.
__device__ inline bool needs_half_scale(float largest) { return largest > 32768.0f && largest < infinity; }

/// The power of two by which such a row is divided: 2^(exponent - 14), so that the largest number falls between 2^14 and
/// 2^15; 1 for other rows.
__device__ inline float half_scale(float largest) {
  return needs_half_scale(largest)
             ? __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, largest) & 0x7f800000u) - (14u << 23))
             : 1.0f;
}

/// One token's row as 16-bit numbers.
template <class Element>
__device__ inline void convert_row(const ConvertRowsArgs& args) {
  __shared__ float scratch[convert_threads / wave_size];
  begin_dependent();
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const float* x = args.x + token * args.x_stride;
  float scale = 1.0f;
  if constexpr (__is_same(Element, half)) {
    float largest = 0.0f;
    for (int k = thread_index(); k < args.k; k += convert_threads) {
      largest = fmaxf(largest, fabsf(x[k]));
    }
    largest = block_reduce<Max>(largest, scratch, 0.0f);
    scale = half_scale(largest);
  }
  const float inverse = 1.0f / scale;
  std::uint16_t* row = args.rows + token * args.padded_k;
  for (int k = thread_index(); k < args.padded_k; k += convert_threads) {
    row[k] = from_float<Element>(k < args.k ? x[k] * inverse : 0.0f).bits;
  }
  if (thread_index() == 0) {
    args.scales[token] = scale;
  }
}

/// Most rows have scale 1 and most layers no bias: such rows are complete after one load.
__device__ inline void finish_row(const FinishRowsArgs& args) {
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const float scale = args.scales[token];
  if (scale == 1.0f && args.bias == nullptr) {
    return;
  }
  const float factor = args.divide != 0 ? 1.0f / scale : scale;  // a power of two either way
  float* out = args.out + token * args.stride;
  for (int i = thread_index(); i < args.n; i += finish_threads) {
    out[i] = fmaf(out[i], factor, args.bias != nullptr ? args.bias[i] : 0.0f);
  }
}

/// Weights in float: each thread sums 4 x 4 outputs, 16 elements of k at a time before they join the total.
__device__ inline void matmul_float(const MatmulFloatArgs& args) {
  constexpr int k_step = 64;
  constexpr int run = 16;  // of k, whose sum is added to the total at once
  constexpr int side = float_tile / 16;
  constexpr int loads = float_tile * k_step / float_threads;
  constexpr int lines = float_threads / k_step;
  __shared__ float x[k_step][float_tile + 1];
  __shared__ float weights[k_step][float_tile + 1];
  const MatmulPart part = part_of_tile(args, static_cast<int>(blockIdx.y));
  const int first_token = static_cast<int>(blockIdx.x) * float_tile;
  const int first_row = (static_cast<int>(blockIdx.y) - part.first_tile) * float_tile;
  const int column = thread_index() % 16;
  const int line = thread_index() / 16;
  const int own_k = thread_index() % k_step;
  const int own_line = thread_index() / k_step;
  float next_x[loads];  // of the step after the one that is multiplied
  float next_weights[loads];
  const auto load = [&](int first) {
    const int k = first + own_k;
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      const std::int64_t token = min(first_token + own_line + lines * i, args.tokens - 1);
      const std::int64_t row = min(first_row + own_line + lines * i, part.n - 1);
      next_x[i] = k < args.k ? args.x[token * args.x_stride + k] : 0.0f;
      next_weights[i] = k < args.k ? reinterpret_cast<const float*>(part.weight + row * part.row_bytes)[k] : 0.0f;
    }
  };
  float totals[side][side] = {};
  load(0);
  for (int first = 0; first < args.k; first += k_step) {
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      x[own_k][own_line + lines * i] = next_x[i];
      weights[own_k][own_line + lines * i] = next_weights[i];
    }
    __syncthreads();
    load(first + k_step);
#pragma unroll
    for (int begin = 0; begin < k_step; begin += run) {
      float sums[side][side] = {};
#pragma unroll
      for (int k = begin; k < begin + run; ++k) {
#pragma unroll
        for (int t = 0; t < side; ++t) {
#pragma unroll
          for (int r = 0; r < side; ++r) {
            sums[t][r] = fmaf(x[k][line + 16 * t], weights[k][column + 16 * r], sums[t][r]);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < side; ++t) {
#pragma unroll
        for (int r = 0; r < side; ++r) {
          totals[t][r] += sums[t][r];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int t = 0; t < side; ++t) {
#pragma unroll
    for (int r = 0; r < side; ++r) {
      const int token = first_token + line + 16 * t;
      const int row = first_row + column + 16 * r;
      if (token < args.tokens && row < part.n) {
        float* out = part.out + token * part.stride + row;
        const float y = part.bias != nullptr ? totals[t][r] + part.bias[row] : totals[t][r];
        *out = part.accumulate != 0 ? *out + y : y;
      }
    }
  }
}

}  // namespace rocmforge::gpu
