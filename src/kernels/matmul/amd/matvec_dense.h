#pragma once

// Products of F16 and BF16 weights with a few tokens, in the frame of matvec_packed.h: every weight is read once, as the
// file stores it. Activations are floats in shared memory, and so are the products: nothing is rounded but sums.
//
// A record is 256 columns of a row. Eight neighbouring lanes take a row: lane c elements 64 p + 8 c to 64 p + 8 c + 7 of it,
// p = 0 to 3, so that their loads together are 128 neighbouring bytes. Records and rows are distributed, and sums added up,
// as in matvec_packed.h: a token's result has the same bits for any number of tokens, rows and work-groups.

#include "kernels/matmul/amd/matvec_dense_args.h"
#include "kernels/matmul/amd/matvec_packed.h"

namespace rocmforge::amd {

inline constexpr int dense_loads = dense_record_bytes / record_pieces / 16;  ///< of 16 bytes, of a lane and record

/// A lane's elements of a record.
struct DensePiece {
  uint4 loads[dense_loads];
};

/// Pieces of a step, in rows half a tile apart. After a row's end its end is loaded again, where the activations are zeros;
/// after the last row that row again, whose sums are not used.
template <MatvecWay way>
__device__ __forceinline__ void load_dense(const CutRun& run, const Walk& walk, int first_record, unsigned lane,
                                           DensePiece (&to)[step_pieces<way>]) {
  const int first_row = (run.first + walk.cut) * cut_rows<way>;
  const int row_bytes = run.tile_bytes / weight_tile_rows;
  const GlobalBytes at = uniform(run.weight + std::int64_t{first_row} * row_bytes);
  const auto record = static_cast<int>(lane / team_lanes) + first_record + walk.step * step_records;
  const int column = record * dense_record_bytes + static_cast<int>(lane % record_pieces * 16);
  const auto row = static_cast<int>(lane % team_lanes / record_pieces);
#pragma unroll
  for (int h = 0; h < step_pieces<way>; ++h) {
    const int from = min(row + h * weight_tile_rows / 2, run.n - 1 - first_row) * row_bytes;
#pragma unroll
    for (int p = 0; p < dense_loads; ++p) {
      to[h].loads[p] = load_at<uint4>(at, static_cast<unsigned>(from + min(column + 128 * p, row_bytes - 16)), 0);
    }
  }
}

/// sums + the products of two neighbouring elements.
template <WeightFormat format>
__device__ inline Pair add_products(std::uint32_t word, Pair x, Pair sums) {
  if constexpr (format == WeightFormat::f16) {  // one instruction each, which converts
    using HalfPair = _Float16 __attribute__((ext_vector_type(2)));
    const auto weights = __builtin_bit_cast(HalfPair, word);
    return {fmaf(static_cast<float>(weights.x), x.x, sums.x), fmaf(static_cast<float>(weights.y), x.y, sums.y)};
  } else {
    const Pair weights = {__builtin_bit_cast(float, word << 16), __builtin_bit_cast(float, word & 0xffff0000u)};
    return __builtin_elementwise_fma(weights, x, sums);
  }
}

/// Adds a step's products with all tokens to the partial sums.
template <WeightFormat format, MatvecWay way>
__device__ __forceinline__ void multiply_dense(const DensePiece (&pieces)[step_pieces<way>], const CutRun& run,
                                               const Walk& walk, const Chunk& chunk, unsigned lane) {
#pragma clang fp contract(off)
  constexpr int rows = cut_rows<way>;
  const unsigned own = lane % record_pieces;
  const auto record = static_cast<int>(lane / team_lanes) + walk.step * step_records;
  const std::uint8_t* image = chunk.memory + record * dense_image_bytes + own * 16;
  const auto row = static_cast<int>(lane % team_lanes / record_pieces);
  const int sum = run.sums(walk.cut) + (chunk.first + record) % partial_sums;
  const int tokens = is_single<way> ? 1 : chunk.tokens;
  float* to = reinterpret_cast<float*>(chunk.memory + chunk.shared.partials) + sum * tokens * rows + row;
#pragma unroll 1
  for (int t = 0; t < tokens; ++t) {
    Pair sums[step_pieces<way>] = {};
#pragma unroll
    for (int i = 0; i < 2 * dense_loads; ++i) {
      const auto x = *reinterpret_cast<const float4*>(image + i * 128);
#pragma unroll
      for (int h = 0; h < step_pieces<way>; ++h) {
        const uint4& four = pieces[h].loads[i / 2];
        std::uint32_t first = i % 2 == 0 ? four.x : four.z;
        std::uint32_t second = i % 2 == 0 ? four.y : four.w;
        if constexpr (!is_single<way> && !has_many_registers) {  // else they are converted before the loop, and kept
          asm volatile("" : "+v"(first), "+v"(second));
        }
        sums[h] = add_products<format>(first, Pair{x.x, x.y}, sums[h]);
        sums[h] = add_products<format>(second, Pair{x.z, x.w}, sums[h]);
      }
    }
#pragma unroll
    for (int h = 0; h < step_pieces<way>; ++h) {
      float value = sums[h].x + sums[h].y;
      value += exchange<7>(value);
      value += exchange<2>(value);
      value += exchange<1>(value);
      if (own == 0 && (step_records == 1 || record < chunk.records)) {
        add_shared(to + h * (weight_tile_rows / 2), value);
      }
    }
    image += chunk.shared.token_bytes;
    to += rows;
  }
}

/// As walk_run() of packed weights.
template <WeightFormat format, MatvecWay way>
__device__ __forceinline__ void walk_dense(const CutRun& run, const Chunk& chunk, int wave) {
  const auto lane = static_cast<unsigned>(lane_here());
  Walk walk(run.earlier, chunk.steps, wave);
  int left = (run.count * chunk.steps - walk.number() + matvec_waves - 1) / matvec_waves;
  if (left <= 0) {
    return;
  }
  Walk ahead = walk;
  constexpr int steps = is_single<way> || has_many_registers ? 4 / step_pieces<way> : 1;
  DensePiece pieces[steps][step_pieces<way>];
  const auto load = [&](DensePiece(&to)[step_pieces<way>]) __attribute__((always_inline)) {
    load_dense<way>(run, ahead, chunk.first, lane, to);
    ahead.advance_within(run.count);
  };
#pragma unroll
  for (auto& own : pieces) {
    load(own);
  }
  do {  // one exit, as there
#pragma unroll
    for (int i = 0; i < steps; ++i) {
      if (i == 0 || i < left) {
        multiply_dense<format, way>(pieces[i], run, walk, chunk, lane);
      }
      walk.advance();
      load(pieces[i]);
    }
    left -= steps;
  } while (left > 0);
}

/// Stores a record of a token's activations, held in `loaded`, and with a norm the sum of its squares too.
__device__ __forceinline__ void put_dense(const MatvecArgs& args, const Chunk& chunk, int all_records, int t, int record,
                                          Activations& loaded) {
  const int lane = gpu::thread_index() % team_lanes;
  if (args.norm_weight != nullptr) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < lane_elems; ++i) {
      squares = fmaf(loaded.values[i], loaded.values[i], squares);
      loaded.values[i] *= loaded.weights[i];
    }
    squares = gpu::wave_reduce<gpu::Sum, team_lanes>(squares);
    if (lane == 0 && record < chunk.records) {
      reinterpret_cast<float*>(chunk.memory + chunk.shared.squares)[t * all_records + chunk.first + record] = squares;
    }
  }
  std::uint8_t* to =
      chunk.memory + t * chunk.shared.token_bytes + record * dense_image_bytes + lane / 8 * 256 + lane % 8 * 16;
  const float(&values)[lane_elems] = loaded.values;
  *reinterpret_cast<float4*>(to) = {values[0], values[1], values[2], values[3]};
  *reinterpret_cast<float4*>(to + 128) = {values[4], values[5], values[6], values[7]};
}

/// Stores all records of the chunk but token 0's first `rounds` of each team, and a record of zeros after an odd number.
__device__ __forceinline__ void put_others(const MatvecArgs& args, const Chunk& chunk, int all_records, int rounds) {
  const int padded = (chunk.records + 1) / 2 * 2;
  int record = gpu::thread_index() / team_lanes + rounds * teams;
  for (int t = 0; t < chunk.tokens; ++t) {
    for (; record < padded; record += teams) {
      Activations loaded;
      load_activations(args, t, chunk.first + record, loaded);
      put_dense(args, chunk, all_records, t, record, loaded);
    }
    record = gpu::thread_index() / team_lanes;
  }
}

template <MatvecWay way>
__device__ __forceinline__ void matvec_dense(const MatvecArgs& args) {
  HIP_DYNAMIC_SHARED(uint4, dynamic)
  auto* const memory = reinterpret_cast<std::uint8_t*>(dynamic);
  const int all_records = (args.k + record_elems - 1) / record_elems;
  const int begin = static_cast<int>(blockIdx.x) * args.group_cuts;
  const int end = min(begin + args.group_cuts, args.cuts);
  const int wave = uniform(gpu::wave_index());
  Chunk chunk{memory, {}, is_single<way> ? 1 : args.tokens, 0, 0, 0};
  chunk.shared = dense_shared(chunk.tokens, cut_rows<way>, args.chunk_records, all_records,
                              (args.gated != 0 ? 2 : 1) * args.batch_cuts);
  const auto begin_chunk = [&](int first) {
    chunk.first = first;
    chunk.records = min(args.chunk_records, all_records - first);
    chunk.steps = (chunk.records + step_records - 1) / step_records;
  };
  begin_chunk(0);
  // The first weights are loaded while the activations are read; the later loads find them in the cache.
  const int team = gpu::thread_index() / team_lanes;
  Activations loaded;
  load_activations(args, 0, team, loaded);
  const CutRun first_run = run_at<way>(args, begin, min(args.batch_cuts, end - begin));
  DensePiece first_step[step_pieces<way>];
  if constexpr (is_single<way>) {
    Walk walk(0, chunk.steps, wave);
    walk.cut = min(walk.cut, first_run.count - 1);  // a wave without work takes another's
    load_dense<way>(first_run, walk, 0, static_cast<unsigned>(gpu::lane_index()), first_step);
  }
  auto* const sums = reinterpret_cast<float*>(memory + chunk.shared.partials);
  for (int at = gpu::thread_index(); at < (chunk.shared.squares - chunk.shared.partials) / 4; at += matvec_threads) {
    sums[at] = 0.0f;
  }
  Output output;
  output.template find<way>(args, chunk.tokens, begin, min(args.batch_cuts, end - begin));
  if (team < (chunk.records + 1) / 2 * 2) {
    put_dense(args, chunk, all_records, 0, team, loaded);
  }
  const bool whole = args.chunk_records >= all_records;  // the activations are stored once
  for (int tile = begin; tile < end; tile += args.batch_cuts) {
    const int count = min(args.batch_cuts, end - tile);
    int first = 0;
    do {  // k is not 0
      begin_chunk(first);
      const bool is_first = tile == begin && first == 0;
      if (is_first || !whole) {
        put_others(read_again(args), chunk, all_records, is_first ? 1 : 0);
        sync_shared();
        if (first + chunk.records == all_records) {
          find_factors(read_again(args), chunk.shared, memory, chunk.tokens, all_records);
        }
      }
      if (is_single<way> && is_first) {
#pragma unroll
        for (const DensePiece& piece : first_step) {
#pragma unroll
          for (const uint4& own : piece.loads) {
            keep(own);
          }
        }
      }
      const MatvecArgs& here = read_again(args);
      for_each_run<way>(
          here, run_at<way>(here, tile, count), tile, count,
          chunk.steps, [&](const CutRun& run) __attribute__((always_inline)) {
            if (run.format == WeightFormat::f16) {
              walk_dense<WeightFormat::f16, way>(run, chunk, wave);
            } else {
              walk_dense<WeightFormat::bf16, way>(run, chunk, wave);
            }
          });
      sync_shared();
      first += args.chunk_records;
    } while (first < all_records);
    const bool more = tile + args.batch_cuts < end;
    const int up = count * partial_sums * chunk.tokens * cut_rows<way>;
    output.template write<way>(read_again(args), chunk, chunk.tokens, up, more);
    if (more) {
      const int next = tile + args.batch_cuts;
      output = {};
      output.template find<way>(read_again(args), chunk.tokens, next, min(args.batch_cuts, end - next));
      sync_shared();
    }
  }
}

}  // namespace rocmforge::amd
