#pragma once

// Products of packed weights (weight_layout.h) with many tokens, on the matrix tiles of tile/tile.h.
//
// A work-group computes a tile of tokens x rows. While a step of k is multiplied out of shared memory, loads of the next two
// steps into registers are in flight; fences order shared memory alone. Weights become binary16 in pairs: a byte b with 0x64
// as the high byte is the number 1024 + b. Every output element is summed along k in the same order, whatever the tile: its
// bits do not depend on the number of tokens.

#include "kernels/matmul/amd/matmul_tiles.h"
#include "kernels/matmul/amd/matvec_formats.h"
#include "kernels/matmul/portable/matmul.h"

namespace rocmforge::amd {

using HalfPair = _Float16 __attribute__((ext_vector_type(2)));

__device__ inline HalfPair pair_of(float value) {
  const auto half_value = static_cast<_Float16>(value);
  return {half_value, half_value};
}

/// The registers of a thread for 16 elements of a piece. Q8_0's pieces have two planes of codes, of which it reads one.
template <WeightFormat format>
struct TileCodes : PackedFormat<format> {
  using Format = PackedFormat<format>;
  using Raw = typename Format::Raw;
  __device__ static Raw load_part(GlobalBytes record, const LanePlace& lane, int) { return Format::load(record, lane, 0); }
};
template <>
struct TileCodes<WeightFormat::q8_0> : PackedFormat<WeightFormat::q8_0> {
  struct Raw {
    uint4 quants;
    std::uint16_t scales;
  };
  __device__ static Raw load_part(GlobalBytes record, const LanePlace& lane, int part) {
    return {load_at<uint4>(record, lane.record + 16 * lane.piece + static_cast<unsigned>(part) * code_plane_bytes, 0),
            load_at<std::uint16_t>(record, lane.record + 2 * lane.piece, layout.scale_offset)};
  }
  __device__ static std::uint32_t code_word(const Raw& raw, int, int w) {
    return w == 0 ? raw.quants.x : w == 1 ? raw.quants.y : w == 2 ? raw.quants.z : raw.quants.w;
  }
  __device__ static PieceAffine affine(const Raw& raw) {
    const float scale = gpu::half_of_word(raw.scales, 0);
    return {{scale, scale}, {0.0f, 0.0f}};
  }
};

/// 16 codes of a piece, dequantised, as 32 bytes of shared memory.
template <WeightFormat format>
__device__ inline void store_codes(const typename TileCodes<format>::Raw& raw, int part, std::uint16_t* to) {
  using Format = TileCodes<format>;
  constexpr bool is_signed = Format::is_signed;
  constexpr auto bias = static_cast<_Float16>(is_signed ? 1152.0f : 1024.0f);
  const PieceAffine affine = Format::affine(raw);
  const HalfPair scale = pair_of(Format::halves && part == 1 ? affine.scale[1] : affine.scale[0]);
  const HalfPair offset = pair_of(Format::halves && part == 1 ? affine.offset[1] : affine.offset[0]);
  std::uint32_t words[8];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const std::uint32_t codes = Format::code_word(raw, part, w) ^ (is_signed ? 0x80808080u : 0u);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t biased = __builtin_amdgcn_perm(0x64646464u, codes, i == 0 ? 0x07010700u : 0x07030702u);
      const HalfPair code = __builtin_bit_cast(HalfPair, biased) - HalfPair{bias, bias};
      words[2 * w + i] = __builtin_bit_cast(std::uint32_t, __builtin_elementwise_fma(code, scale, offset));
    }
  }
  reinterpret_cast<uint4*>(to)[0] = uint4{words[0], words[1], words[2], words[3]};
  reinterpret_cast<uint4*>(to)[1] = uint4{words[4], words[5], words[6], words[7]};
}

template <WeightFormat format, const gpu::MatmulTileShape& shape, int buffers>
struct PackedTile {
  using Format = TileCodes<format>;
  using Tile = gpu::MatrixTile<half>;
  static constexpr int waves = shape.threads / gpu::wave_size;
  static constexpr int waves_along_rows = waves / shape.waves_along_tokens;
  static constexpr int wave_tokens = shape.tokens / shape.waves_along_tokens;
  static constexpr int wave_rows = shape.rows / waves_along_rows;
  static constexpr int token_tiles = wave_tokens / 16;
  static constexpr int row_tiles = wave_rows / 16;
  static constexpr int stride = shape.k_step + gpu::row_padding;
  static constexpr int step_strips = shape.k_step / gpu::strip_elems;
  static constexpr int thread_strips = shape.rows * step_strips / shape.threads;         ///< of weights, in a step
  static constexpr int thread_pieces = shape.tokens * shape.k_step / 8 / shape.threads;  ///< 16 bytes of x each, in a step
  static_assert(waves_along_rows * shape.waves_along_tokens == waves && wave_tokens % 16 == 0 && wave_rows % 16 == 0);
  static_assert(thread_strips * shape.threads == shape.rows * step_strips && gpu::matmul_k_padding % shape.k_step == 0);
  static_assert(thread_pieces * shape.threads * 8 == shape.tokens * shape.k_step && shape.k_step % 32 == 0);

  struct Shared {
    alignas(16) std::uint16_t x[buffers][shape.tokens * stride];
    alignas(16) std::uint16_t weights[buffers][shape.rows * stride];
  };

  struct Loads {
    typename Format::Raw weights[thread_strips];
    uint4 x[thread_pieces];
  };

  const gpu::MatmulTileArgs& args;
  gpu::MatmulPart part;
  int first_token;
  int first_row;
  GlobalBytes weight;  ///< of the tile's first row
  GlobalBytes x;       ///< of its first token
  unsigned weight_offsets[thread_strips];
  unsigned x_offsets[thread_pieces];

  __device__ static int strip_row(int i) { return (gpu::thread_index() + i * shape.threads) / step_strips; }
  __device__ static int strip_of_step(int i) { return (gpu::thread_index() + i * shape.threads) % step_strips; }
  __device__ static int piece_token(int i) { return (gpu::thread_index() + i * shape.threads) / (shape.k_step / 8); }
  __device__ static int piece_of_step(int i) { return (gpu::thread_index() + i * shape.threads) % (shape.k_step / 8); }

  __device__ __forceinline__ void begin() {
    const int first_tile = first_row / weight_tile_rows;
    weight = uniform(part.weight + first_tile * part.row_bytes);
    x = uniform(reinterpret_cast<const std::uint8_t*>(args.x + std::int64_t{first_token} * args.padded_k));
#pragma unroll
    for (int i = 0; i < thread_strips; ++i) {
      const int row = min(first_row + strip_row(i), part.n - 1);
      weight_offsets[i] = static_cast<unsigned>(row / weight_tile_rows - first_tile) * static_cast<unsigned>(part.row_bytes);
    }
#pragma unroll
    for (int i = 0; i < thread_pieces; ++i) {
      const int token = min(first_token + piece_token(i), args.tokens - 1) - first_token;
      x_offsets[i] = 2 * static_cast<unsigned>(token * args.padded_k + 8 * piece_of_step(i));
    }
  }

  /// Behind k, records and rows of x have zeros up to the step's end.
  __device__ __forceinline__ void load(int step, Loads& loads) const {
    const int unit = step * (shape.k_step / piece_elems);  // a record holds whole steps
    const GlobalBytes record = weight + static_cast<std::int64_t>(unit / record_pieces) * Format::layout.record_bytes;
#pragma unroll
    for (int i = 0; i < thread_strips; ++i) {
      const int row = min(first_row + strip_row(i), part.n - 1);
      const auto piece = static_cast<unsigned>(row % weight_tile_rows * record_pieces + unit % record_pieces +
                                               strip_of_step(i) / (piece_elems / gpu::strip_elems));
      loads.weights[i] = Format::load_part(record, {piece, weight_offsets[i]}, strip_of_step(i) % 2);
    }
    const GlobalBytes x_step = x + std::int64_t{2} * step * shape.k_step;
#pragma unroll
    for (int i = 0; i < thread_pieces; ++i) {
      loads.x[i] = load_at<uint4>(x_step, x_offsets[i], 0);
    }
  }

  __device__ __forceinline__ void store(const Loads& loads, std::uint16_t* x_to, std::uint16_t* weights_to) const {
#pragma unroll
    for (int i = 0; i < thread_strips; ++i) {
      store_codes<format>(loads.weights[i], strip_of_step(i) % 2,
                          weights_to + strip_row(i) * stride + gpu::strip_elems * strip_of_step(i));
    }
#pragma unroll
    for (int i = 0; i < thread_pieces; ++i) {
      *reinterpret_cast<uint4*>(x_to + piece_token(i) * stride + 8 * piece_of_step(i)) = loads.x[i];
    }
  }

  /// The operands of two products along k: 32 elements of a row each. CDNA's lanes have eight of them side by side, four for
  /// each of the products, the same ones of both factors.
  __device__ __forceinline__ static void operands(const std::uint16_t* from, Tile::A (&found)[2]) {
    if constexpr (Tile::run == 4) {
      const std::uint16_t* row = from + (gpu::lane_index() & 15) * stride + 8 * (gpu::lane_index() >> 4);
      struct alignas(16) Two {
        Tile::A parts[2];
      };
      const Two two = *reinterpret_cast<const Two*>(row);
      found[0] = two.parts[0];
      found[1] = two.parts[1];
    } else {
      found[0] = Tile::load_a_shared(reinterpret_cast<const half*>(from), stride);
      found[1] = Tile::load_a_shared(reinterpret_cast<const half*>(from) + 16, stride);
    }
  }

  __device__ __forceinline__ void multiply(const std::uint16_t* x_from, const std::uint16_t* weights_from,
                                           Tile::C (&sums)[token_tiles][row_tiles]) const {
#pragma unroll
    for (int k = 0; k < shape.k_step; k += 32) {
      Tile::B b[row_tiles][2];
#pragma unroll
      for (int r = 0; r < row_tiles; ++r) {
        operands(weights_from + 16 * r * stride + k, b[r]);
      }
#pragma unroll
      for (int t = 0; t < token_tiles; ++t) {
        Tile::A a[2];
        operands(x_from + 16 * t * stride + k, a);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int r = 0; r < row_tiles; ++r) {
            Tile::multiply(sums[t][r], a[i], b[r][i]);
          }
        }
      }
    }
  }

  /// Calls write(token, row, sum) for every output of the tile, those beyond its tokens and rows too.
  template <class Write>
  __device__ __forceinline__ void run(Shared& shared, const Write& write) {
    begin();
    const int token_of_wave = gpu::wave_index() / waves_along_rows * wave_tokens;
    const int row_of_wave = gpu::wave_index() % waves_along_rows * wave_rows;
    Tile::C sums[token_tiles][row_tiles];
#pragma unroll
    for (int t = 0; t < token_tiles; ++t) {
#pragma unroll
      for (int r = 0; r < row_tiles; ++r) {
        sums[t][r] = Tile::zero();
      }
    }
    const int steps = (args.k + shape.k_step - 1) / shape.k_step;
    // After the last step it is loaded again, unused, so that no branch goes round the loads.
    Loads even;
    Loads odd;
    const auto advance = [&](int step, Loads& later, const Loads& next) {
      const int own = buffers == 2 ? step & 1 : 0;
      const int other = buffers == 2 ? own ^ 1 : 0;
      load(min(step + 2, steps - 1), later);
      multiply(shared.x[own] + token_of_wave * stride, shared.weights[own] + row_of_wave * stride, sums);
      if constexpr (buffers == 1) {
        sync_shared();
      }
      store(next, shared.x[other], shared.weights[other]);
      sync_shared();
    };
    load(0, even);
    load(min(1, steps - 1), odd);
    store(even, shared.x[0], shared.weights[0]);
    sync_shared();
#pragma unroll 1
    for (int step = 0; step < steps; step += 2) {
      advance(step, even, odd);
      if (step + 1 < steps) {
        advance(step + 1, odd, even);
      }
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

template <WeightFormat format, const gpu::MatmulTileShape& shape, int buffers>
__device__ inline void packed_tile(const gpu::MatmulTileArgs& args) {
  using Body = PackedTile<format, shape, buffers>;
  __shared__ typename Body::Shared shared;
  const gpu::MatmulPart part = gpu::part_of_tile(args, static_cast<int>(blockIdx.y));
  Body body{args,
            part,
            static_cast<int>(blockIdx.x) * shape.tokens,
            (static_cast<int>(blockIdx.y) - part.first_tile) * shape.rows,
            nullptr,
            nullptr,
            {},
            {}};
  body.run(shared, [&](int token, int row, float sum) { gpu::store_output(args, part, token, row, sum); });
}

}  // namespace rocmforge::amd
