#pragma once

// Products of weights with a few tokens. Memory bound: every weight is read once, in the file's own layout.
//
// A wave takes a few rows, its lanes the units of a row (see matmul_decode.h) one after another; the next unit is loaded
// while the current one is computed. x lies in shared memory as floats, in chunks of k that all waves pass together. Per
// strip of 16 elements: dot += value * x, then sum += scale * dot + offset * (sum of x). The order of all sums depends on k
// and the wave size alone, so a token's result has the same bits for every number of tokens.

#include "kernels/matmul/portable/matmul_args.h"
#include "kernels/matmul/portable/matmul_decode_k.h"

namespace rocmforge::gpu {

/// The part that tile `tile` of the launch belongs to.
template <class Args>
__device__ inline MatmulPart part_of_tile(const Args& args, int tile) {
  MatmulPart part = args.parts[0];
#pragma unroll
  for (int i = 1; i < most_matmul_parts; ++i) {
    if (i < args.num_parts && tile >= args.parts[i].first_tile) {
      part = args.parts[i];
    }
  }
  return part;
}

/// The place of piece `piece` (of four floats) of a strip in shared memory, in pieces: lanes that read the same piece of
/// different strips, for the strips that the formats give to 8 neighbouring lanes, use different banks.
__device__ inline int piece_place(int strip_index, int piece) {
  const int key = ((strip_index >> 2 ^ strip_index >> 3) & 1) | ((strip_index >> 1 ^ strip_index >> 3) & 1) << 1;
  return 4 * strip_index + (piece ^ key);
}

/// Elements [first, first + chunk) of every token to `staged` [tokens, chunk], zeros outside of x.
template <int tokens>
__device__ inline void stage_chunk(const MatvecArgs& args, int first, int chunk, float4* staged) {
  for (int t = 0; t < tokens; ++t) {
    const float* row = args.x + t * args.x_stride;
    for (int at = thread_index(); at < chunk / 4; at += matvec_threads) {
      const int element = first + 4 * at;
      float4 four{0.0f, 0.0f, 0.0f, 0.0f};
      if (t < args.tokens) {
        if (args.x_aligned != 0) {
          if (element < args.k) {
            four = *reinterpret_cast<const float4*>(row + element);
          }
        } else {
          four.x = element < args.k ? row[element] : 0.0f;
          four.y = element + 1 < args.k ? row[element + 1] : 0.0f;
          four.z = element + 2 < args.k ? row[element + 2] : 0.0f;
          four.w = element + 3 < args.k ? row[element + 3] : 0.0f;
        }
      }
      staged[t * (chunk / 4) + piece_place(at >> 2, at & 3)] = four;
    }
  }
}

/// Adds one unit of `rows` rows to `sums`.
template <class Strips, int tokens, int rows>
__device__ inline void add_unit(const typename Strips::Raw (&raw)[rows], int first_strip, int unit, int chunk,
                                const float4* staged, float (&sums)[rows][tokens]) {
  constexpr int unrolled_parts = tokens < 4 ? Strips::parts : 1;  // registers are short with more tokens
#pragma unroll unrolled_parts
  for (int part = 0; part < Strips::parts; ++part) {
    const int strip_index = Strips::strip_of(unit, part) - first_strip;
    float dots[rows][tokens] = {};
    float x_sums[tokens] = {};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      float4 x[tokens];
#pragma unroll
      for (int t = 0; t < tokens; ++t) {
        x[t] = staged[t * (chunk / 4) + piece_place(strip_index, w)];
        if constexpr (Strips::has_offset) {
          x_sums[t] += (x[t].x + x[t].y) + (x[t].z + x[t].w);
        }
      }
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        float values[4];
        Strips::values(raw[r], part, w, values);
#pragma unroll
        for (int t = 0; t < tokens; ++t) {
          float dot = fmaf(values[0], x[t].x, dots[r][t]);
          dot = fmaf(values[1], x[t].y, dot);
          dot = fmaf(values[2], x[t].z, dot);
          dots[r][t] = fmaf(values[3], x[t].w, dot);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const Affine affine = Strips::affine(raw[r], part);
#pragma unroll
      for (int t = 0; t < tokens; ++t) {
        sums[r][t] = fmaf(affine.scale, dots[r][t], sums[r][t]);
        if constexpr (Strips::has_offset) {
          sums[r][t] = fmaf(affine.offset, x_sums[t], sums[r][t]);
        }
      }
    }
  }
}

/// What a work-group keeps of x: dynamic shared memory.
__device__ inline float4* staged_chunk() {
#if ROCMFORGE_DEVICE_AMD
  HIP_DYNAMIC_SHARED(float4, staged)
#else
  extern __shared__ float4 staged[];
#endif
  return staged;
}

/// Each lane's part of the products of a wave's rows, which begin at `weights`, with x. All waves of the work-group take
/// part.
template <class Block, int tokens, int rows>
__device__ inline void wave_products(const MatvecArgs& args, const std::uint8_t* const (&weights)[rows], float4* staged,
                                     float (&sums)[rows][tokens]) {
  using Strips = WeightStrips<Block>;
  const int units = (args.k + strip_elems * Strips::parts - 1) / (strip_elems * Strips::parts);
  const int chunk_units = args.chunk / (strip_elems * Strips::parts);
  typename Strips::Raw next[rows];
  if (lane_index() < units) {
    load_units<Strips>(args, weights, lane_index(), next);
  }
  wait_for_predecessor();  // weights are all that was read before
  int unit = lane_index();
  for (int first = 0; first < args.k; first += args.chunk) {
    if (first > 0) {
      __syncthreads();
    }
    stage_chunk<tokens>(args, first, args.chunk, staged);
    __syncthreads();
    const int last_unit = first / (strip_elems * Strips::parts) + chunk_units;
    for (; unit < (last_unit < units ? last_unit : units); unit += wave_size) {
      typename Strips::Raw raw[rows];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        raw[r] = next[r];
      }
      if (unit + wave_size < units) {
        load_units<Strips>(args, weights, unit + wave_size, next);
      }
      add_unit<Strips, tokens, rows>(raw, first / strip_elems, unit, args.chunk, staged, sums);
    }
  }
}

template <class Block, int tokens, int rows>
__device__ inline void matvec(const MatvecArgs& args) {
  constexpr int waves = matvec_threads / wave_size;
  release_successor();
  const int tile = static_cast<int>(blockIdx.x);
  const MatmulPart part = part_of_tile(args, tile);
  const int first_row = ((tile - part.first_tile) * waves + wave_index()) * rows;
  const std::uint8_t* weights[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int row = first_row + r < part.n ? first_row + r : part.n - 1;
    weights[r] = part.weight + row * part.row_bytes;
  }
  float sums[rows][tokens] = {};
  wave_products<Block, tokens, rows>(args, weights, staged_chunk(), sums);

#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int t = 0; t < tokens; ++t) {
      const float sum = wave_reduce<Sum>(sums[r][t]) * part.scale;
      const int row = first_row + r;
      if (lane_index() == (r * tokens + t) % wave_size && row < part.n && t < args.tokens) {
        float* out = part.out + t * part.stride + row;
        const float y = part.bias != nullptr ? sum + part.bias[row] : sum;
        *out = part.accumulate != 0 ? *out + y : y;
      }
    }
  }
}

}  // namespace rocmforge::gpu
