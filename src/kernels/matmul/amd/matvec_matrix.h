#pragma once

// Products of packed weights with 2 to 8 tokens on matrix instructions of bytes, in the frame of matvec_packed.h.
//
// A lane holds whole pieces of one of 16 rows; wave_size / 16 lanes hold different pieces of a row's record, which are the
// slices of k of one product. The other factor has 16 columns: for each of these pieces the upper and lower bytes of two or
// four tokens, with zeros in the slices of the other pieces. So a lane gets the sums of its own pieces, whose scales it
// holds, for both bytes of a token. Sums of bytes are exact, and the sums after them have the order of matvec_packed.h: a
// token has the bits that it has alone.

#include "kernels/matmul/amd/matvec_packed.h"

#if ROCMFORGE_BYTE_TILES

namespace rocmforge::amd {

/// Tokens of a product, and pieces of a lane's step, which is a record of 16 rows. A lane takes two of these pieces at a
/// time.
inline constexpr int product_tokens = ByteTile::elems / 2;
inline constexpr int lane_pieces = record_pieces / ByteTile::slices;
inline constexpr int lane_halves = lane_pieces / 2;
static_assert(matrix_tokens(1, gpu::wave_size) == product_tokens);

/// Piece i of a lane's step. In the order in which matvec_packed.h adds a row's eight: 0 + 7, 2 + 5, 1 + 6, 3 + 4.
__device__ inline unsigned piece_of_lane(unsigned i, unsigned slice) {
  const unsigned back = i / 2 * 2;
  return i % 2 == 0 ? back + slice : 7 - back - slice;
}

/// Two of a lane's pieces, as signed bytes.
template <class Format>
struct LanePieces {
  ByteTile::Operand codes[2][4];  ///< elements 8 m to 8 m + 7
  PieceAffine affine[2];

  __device__ __forceinline__ explicit LanePieces(const typename Format::Raw (&raw)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const ByteTile::Operand high = Format::code_word(raw[i], m / 2, m % 2 * 2 + 1);
        codes[i][m] = high << 32 | Format::code_word(raw[i], m / 2, m % 2 * 2);
      }
      affine[i] = Format::affine(raw[i]);
    }
  }
};

/// Half `half` of the record of 16 rows at the position of `walk`; where the part ends with one tile, that tile twice.
template <class Format>
__device__ __forceinline__ void load_half(const CutRun& run, const Walk& walk, const Chunk& chunk, unsigned lane, int half,
                                          typename Format::Raw (&raw)[2]) {
  const int tile = 2 * (run.first + walk.cut);
  const GlobalBytes at =
      uniform(run.weight + std::int64_t{tile} * run.tile_bytes + std::int64_t{chunk.first + walk.step} * run.record_bytes);
  const int other = (tile + 1) * weight_tile_rows < run.n ? run.tile_bytes : 0;
  const unsigned slice = lane / 16;
  const auto record = static_cast<unsigned>(lane % 16 < weight_tile_rows ? 0 : other);
  const unsigned first = lane % weight_tile_rows * record_pieces;
  raw[0] = Format::load(at, {first + slice, record}, 2 * half);
  raw[1] = Format::load(at, {first + piece_of_lane(lane_pieces - 1, slice), record}, lane_pieces - 2 - 2 * half);
}

/// A value of each token of a product.
using TokenValues = float __attribute__((ext_vector_type(product_tokens)));
using SharedBytes = const __attribute__((address_space(3))) std::uint8_t*;

__device__ __forceinline__ TokenValues every(float value) { return static_cast<TokenValues>(value); }

/// Adds up a row's pieces over the lanes that hold them, and adds the sums of each token to `to`, [tokens][16] floats.
__device__ __forceinline__ void add_products(TokenValues values, float* to, int first, int tokens, unsigned lane) {
  const unsigned slice = lane / 16;
  constexpr int kept = product_tokens / 2;  // tokens of a lane; the other half goes to its partner
  constexpr int mask = 8 * ByteTile::slices;
  const bool upper = slice >= ByteTile::slices / 2;
#pragma unroll
  for (int t = 0; t < kept; ++t) {
    float low = values[t];
    float high = values[kept + t];
    asm volatile("" : "+v"(low), "+v"(high));  // else an element would be indexed by a number that differs between lanes
    float sum = (upper ? high : low) + exchange_rows<mask>(upper ? low : high);
    if constexpr (ByteTile::slices == 4) {
      sum += exchange_rows<16>(sum);
    }
    asm volatile("" : "+v"(sum));  // exchanged by all lanes, before lanes with nothing to add branch
    const int token = first + t + (upper ? kept : 0);
    if (token < tokens && (ByteTile::slices == 2 || slice % 2 == 0)) {
      add_shared(to + token * 16 + lane % 16, sum);
    }
  }
}

/// Sums of a lane's earlier pieces of a record, for each product of tokens, where it takes more than two pieces.
using HeldSums = TokenValues[lane_halves > 1 ? most_matvec_tokens / product_tokens : 1];

/// Multiplies half `half` of a record with all tokens; after the last half, adds the record's sums to the partial sums.
template <int half, class Format>
__device__ __forceinline__ void multiply_half(const LanePieces<Format>& pieces, const CutRun& run, const Walk& walk,
                                              const Chunk& chunk, unsigned lane, HeldSums& held) {
#pragma clang fp contract(off)
  const int padded = matrix_tokens(chunk.tokens, gpu::wave_size);
  const unsigned slice = lane / 16;
  const unsigned column = lane % 16;
  const bool own = column / ByteTile::elems == slice;  // the column's piece is this lane's
  const unsigned unit = column % product_tokens * 2 + column / product_tokens % 2;
  const auto image = (SharedBytes)(chunk.memory + matrix_image + walk.step * matrix_record_bytes(padded));
  SharedBytes codes[2];
  SharedBytes infos[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned piece = piece_of_lane(2 * half + i, slice);
    const SharedBytes of_piece = image + __umul24(piece, static_cast<unsigned>(64 * padded)) + unit * 16;
    codes[i] = own ? of_piece : (SharedBytes)(chunk.memory + matrix_zeros);
    infos[i] = image + matrix_code_bytes(padded) + __umul24(piece, static_cast<unsigned>(12 * padded));
  }
  const unsigned next = own ? product_tokens * 64 : 0;
  const int sum = run.sums(walk.cut) + (chunk.first + walk.step) % partial_sums;
  float* to = reinterpret_cast<float*>(chunk.memory + chunk.shared.partials) + sum * chunk.tokens * 16;
  const auto multiply = [&]() __attribute__((always_inline)) {
    TokenValues values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      using Two = ByteTile::Operand __attribute__((ext_vector_type(2)));
      using Bytes = const __attribute__((address_space(3))) Two*;
      using Infos = const __attribute__((address_space(3))) TokenValues*;
      const Two low = ((Bytes)codes[i])[0];
      const Two high = ((Bytes)codes[i])[2 * product_tokens];
      ByteTile::Sums found = ByteTile::multiply(low.x, pieces.codes[i][0], ByteTile::Sums{});
      found = ByteTile::multiply(low.y, pieces.codes[i][1], found);
      ByteTile::Sums behind = Format::halves ? ByteTile::Sums{} : found;
      behind = ByteTile::multiply(high.x, pieces.codes[i][2], behind);
      behind = ByteTile::multiply(high.y, pieces.codes[i][3], behind);
      const auto total = [](const ByteTile::Sums& of) {
        TokenValues sums;
#pragma unroll
        for (int t = 0; t < product_tokens; ++t) {
          sums[t] = static_cast<float>(of[t] * 256 + of[product_tokens + t]);
        }
        return sums;
      };
      const PieceAffine& affine = pieces.affine[i];
      TokenValues value;
      if constexpr (Format::halves) {
        const TokenValues high_sums = ((Infos)infos[i])[2];
        value = every(affine.scale[0]) * total(found);
        value = __builtin_elementwise_fma(every(affine.scale[1]), total(behind), value);
        value = __builtin_elementwise_fma(every(affine.offset[0]), ((Infos)infos[i])[1] - high_sums, value);
        value = __builtin_elementwise_fma(every(affine.offset[1]), high_sums, value);
      } else {
        value = every(affine.scale[0]) * total(behind);
        if constexpr (Format::has_offset) {
          value = __builtin_elementwise_fma(every(affine.offset[0]), ((Infos)infos[i])[1], value);
        }
      }
      values[i] = value * ((Infos)infos[i])[0];
      codes[i] += next;
      infos[i] += 12 * product_tokens;
      if constexpr (gpu::wave_size == 32) {
        schedule_barrier();  // else the other piece's loads of activations would take registers
      }
    }
    return values[0] + values[1];
  };
  if constexpr (lane_halves > 1) {
#pragma unroll
    for (int p = 0; p < most_matvec_tokens / product_tokens; ++p) {
      if (p * product_tokens < chunk.tokens) {
        held[p] = half > 0 ? multiply() + held[p] : multiply();
        if constexpr (half == lane_halves - 1) {
          add_products(held[p], to, p * product_tokens, chunk.tokens, lane);
        }
      }
    }
  } else {
    int first = 0;
#pragma unroll 1
    for (; first + product_tokens < chunk.tokens; first += 2 * product_tokens) {  // two at once hide each other's latencies
      const TokenValues one = multiply();
      const TokenValues two = multiply();
      add_products(one, to, first, chunk.tokens, lane);
      add_products(two, to, first + product_tokens, chunk.tokens, lane);
    }
    if (first < chunk.tokens) {
      add_products(multiply(), to, first, chunk.tokens, lane);
    }
  }
}

/// Computes all of a wave's steps of a run. The next step is in flight while a step is multiplied; after the last one it is
/// loaded again.
template <WeightFormat format>
__device__ __forceinline__ void walk_matrix(const CutRun& run, const Chunk& chunk, int wave) {
  using Format = PackedFormat<format>;
  Walk walk(run.earlier, chunk.steps, wave);
  int left = (run.count * chunk.steps - walk.number() + matvec_waves - 1) / matvec_waves;
  if (left <= 0) {
    return;
  }
  typename Format::Raw raw[lane_halves][2];
#pragma unroll
  for (int h = 0; h < lane_halves; ++h) {
    load_half<Format>(run, walk, chunk, static_cast<unsigned>(lane_here()), h, raw[h]);
  }
  do {
    const Walk here = walk;
    walk.advance_within(run.count);
    const auto lane = static_cast<unsigned>(lane_here());
    HeldSums held{};
    {
      const LanePieces<Format> pieces(raw[0]);
      load_half<Format>(run, walk, chunk, lane, 0, raw[0]);
      multiply_half<0>(pieces, run, here, chunk, lane, held);
    }
    if constexpr (lane_halves > 1) {
      const LanePieces<Format> pieces(raw[1]);
      load_half<Format>(run, walk, chunk, lane, 1, raw[1]);
      multiply_half<1>(pieces, run, here, chunk, lane, held);
    }
  } while (--left > 0);
}

__device__ __forceinline__ void walk_matrix(const CutRun& run, const Chunk& chunk, int wave) {
  visit_weight_format<MatvecWay::matrix>(
      run.format, [&]<WeightFormat format>() __attribute__((always_inline)) { walk_matrix<format>(run, chunk, wave); });
}

/// A word of each line of a wave's first steps of a chunk, which prefetches these lines while activations are quantised.
struct FirstLines {
  static constexpr int steps = 3;
  static constexpr unsigned tile_lanes = gpu::wave_size / 2;
  std::uint32_t words[steps];

  __device__ __forceinline__ void load(const CutRun& run, const Chunk& chunk, int wave) {
    const auto lane = static_cast<unsigned>(lane_here());
    Walk walk(run.earlier, chunk.steps, wave);
    walk.cut = min(walk.cut, run.count - 1);  // a wave without work takes another's
    const unsigned line = min(lane % tile_lanes * 128, static_cast<unsigned>(run.record_bytes - 4));
#pragma unroll
    for (std::uint32_t& word : words) {
      const int tile = 2 * (run.first + walk.cut);
      const GlobalBytes at = uniform(run.weight + std::int64_t{tile} * run.tile_bytes +
                                     std::int64_t{chunk.first + walk.step} * run.record_bytes);
      const bool other = lane >= tile_lanes && (tile + 1) * weight_tile_rows < run.n;
      word = load_at<std::uint32_t>(at, line + (other ? static_cast<unsigned>(run.tile_bytes) : 0u), 0);
      walk.advance_within(run.count);
    }
  }
  __device__ __forceinline__ void keep() const {
#pragma unroll
    for (const std::uint32_t word : words) {
      asm volatile("" ::"v"(word));
    }
  }
};

/// The thread's number, opaque to the compiler: values derived from it are not computed earlier and kept.
__device__ __forceinline__ int thread_here() {
  int thread = gpu::thread_index();
  asm volatile("" : "+v"(thread));
  return thread & (matvec_threads - 1);
}

/// Quantises the chunk's records of all tokens. Calls meanwhile() while the first of them are in flight.
class MatrixStage {
 public:
  /// What is read of the arguments is read at once.
  __device__ __forceinline__ MatrixStage(const MatvecArgs& args, const Chunk& chunk, int squares, int all_records)
      : norm_weight(args.norm_weight),
        x_(args.x),
        x_stride_(args.x_stride),
        k_(args.k),
        chunk_(chunk),
        squares_(squares),
        all_records_(all_records),
        padded_(matrix_tokens(chunk.tokens, gpu::wave_size)) {
    asm volatile("" : "+s"(norm_weight), "+s"(x_), "+s"(x_stride_), "+s"(k_));
  }

  template <class Body>
  __device__ __forceinline__ void run(int wave, const Body& meanwhile) const {
    constexpr int rounds = gpu::wave_size == 64 ? 4 : 2;  // of the waves, whose activations are loaded together
    const int record_steps = (chunk_.records + step_records - 1) / step_records;
    const int items = chunk_.tokens * record_steps;
    const int divisor = 65536 / record_steps + 1;  // exact for fewer than 65536 / record_steps items
    int begin = 0;
    do {
      Activations loaded[rounds]{};  // zeroed, so that without a norm no value is kept over the rounds
      const auto item_of = [&](int number) __attribute__((always_inline)) {
        const int t = uniform(number * divisor >> 16);
        return Item{t, (number - t * record_steps) * step_records};
      };
#pragma unroll
      for (int i = 0; i < rounds; ++i) {
        load(item_of(min(begin + wave + i * matvec_waves, items - 1)), loaded[i]);
      }
      if (begin == 0) {
        meanwhile();
      }
#pragma unroll
      for (int i = 0; i < rounds; ++i) {
        if (begin + wave + i * matvec_waves < items) {
          put(item_of(uniform(begin + wave + i * matvec_waves)), loaded[i]);
        }
      }
      begin += rounds * matvec_waves;
    } while (begin < items);
  }

  const float* norm_weight;

 private:
  /// A wave takes neighbouring records of a token.
  struct Item {
    int t;
    int record;  ///< of the chunk
  };

  /// After k the last elements are loaded again, so that no lane branches round the loads; put() replaces them by zeros.
  __device__ __forceinline__ void load(const Item& item, Activations& loaded) const {
    const int first = (chunk_.first + item.record) * record_elems;
    const auto lane = static_cast<unsigned>(min(thread_here() % gpu::wave_size * lane_elems, k_ - first - lane_elems));
    const auto eight = [lane](const float* from, float(&values)[lane_elems]) __attribute__((always_inline)) {
      const auto at = (Global<const float>)(uniform(reinterpret_cast<const std::uint8_t*>(from)) + 4 * lane);
#pragma unroll
      for (int i = 0; i < lane_elems; ++i) {
        values[i] = at[i];
      }
    };
    eight(x_ + item.t * x_stride_ + first, loaded.values);
    if (norm_weight != nullptr) {
      eight(norm_weight + first, loaded.weights);
    }
  }

  __device__ __forceinline__ void put(const Item& item, Activations& loaded) const {
    const int thread = thread_here();
    const auto lane = static_cast<unsigned>(thread) % gpu::wave_size;
    const int record = item.record + static_cast<int>(lane / team_lanes);
    if (const int first = (chunk_.first + item.record) * record_elems; first + gpu::wave_size * lane_elems > k_) {
#pragma unroll
      for (float& value : loaded.values) {
        value = first + static_cast<int>(lane) * lane_elems < k_ ? value : 0.0f;
      }
    }
    float* squares = reinterpret_cast<float*>(chunk_.memory + squares_) + item.t * all_records_ + chunk_.first;
    quantise_to(
        *this, loaded, record < chunk_.records ? squares + record : nullptr, thread,
        [&](int, int piece, const std::uint32_t(&upper)[2], const std::uint32_t(&lower)[2], float magnitude,
            const PieceSums& sums) __attribute__((always_inline)) {
          if (step_records > 1 && record >= chunk_.records) {
            return;
          }
          const auto record_bytes = static_cast<unsigned>(matrix_record_bytes(padded_));
          std::uint8_t* const image = chunk_.memory + matrix_image + item.record * record_bytes;
          const int product = item.t / product_tokens;
          const int within = item.t % product_tokens;
          const unsigned of_record = lane / team_lanes * record_bytes;
          const auto of_piece = [&](int bytes) {
            return of_record + __umul24(static_cast<unsigned>(piece), static_cast<unsigned>(bytes * padded_));
          };
          std::uint8_t* codes = image + product * 64 * product_tokens + within * 32 +
                                (of_piece(64) + lane / 2 % 2 * (32 * product_tokens) + lane % 2 * 8);
          *reinterpret_cast<uint2*>(codes) = {upper[0], upper[1]};
          *reinterpret_cast<uint2*>(codes + 16) = {lower[0], lower[1]};
          if (lane % 4 == 0) {
            auto* info = reinterpret_cast<float*>(image + matrix_code_bytes(padded_) + product * 12 * product_tokens +
                                                  within * 4 + of_piece(12));
            info[0] = magnitude / largest_code;
            info[product_tokens] = static_cast<float>(sums.low + sums.high);
            info[2 * product_tokens] = static_cast<float>(sums.high);
          }
        });
  }

  const float* x_;
  std::int64_t x_stride_;
  int k_;
  const Chunk& chunk_;
  int squares_;  ///< where they are in shared memory
  int all_records_;
  int padded_;
};

__device__ __forceinline__ int records_of(const MatvecArgs& args) { return (args.k + record_elems - 1) / record_elems; }
__device__ __forceinline__ MatvecShared shared_of(const MatvecArgs& args) {
  return matrix_shared(args.tokens, matrix_tokens(args.tokens, gpu::wave_size), args.chunk_records, records_of(args),
                       (args.gated != 0 ? 2 : 1) * args.batch_cuts);
}
/// The first of a work-group's cuts, and the one behind them.
__device__ __forceinline__ int first_cut(const MatvecArgs& args, int group) { return uniform(group) * args.group_cuts; }
__device__ __forceinline__ int end_cut(const MatvecArgs& args, int group) {
  return min(first_cut(args, group) + args.group_cuts, args.cuts);
}

/// Zeros the partial sums, which later batches leave zeroed, and the place read by lanes without a column.
__device__ __forceinline__ void clear(const MatvecArgs& args, std::uint8_t* memory) {
  const MatvecShared shared = shared_of(args);
  auto* const sums = reinterpret_cast<float*>(memory + shared.partials);
  for (int at = gpu::thread_index(); at < (shared.squares - shared.partials) / 4; at += matvec_threads) {
    sums[at] = 0.0f;
  }
  if (const int thread = thread_here(); thread < (matrix_image - matrix_zeros) / 4) {
    reinterpret_cast<float*>(memory + matrix_zeros)[thread] = 0.0f;
  }
}

__device__ __forceinline__ void matvec_matrix(const MatvecArgs& args) {
  constexpr MatvecWay way = MatvecWay::matrix;
  HIP_DYNAMIC_SHARED(uint4, dynamic)
  auto* const memory = reinterpret_cast<std::uint8_t*>(dynamic);
  const int wave = uniform(gpu::wave_index());
  int group = static_cast<int>(blockIdx.x);
  asm volatile("" : "+v"(group));  // kept in a vector register, of which there are enough
  // Arguments are read again in each part: values derived from them would take all scalar registers if kept.
  for (int cut = first_cut(args, group); cut < end_cut(read_again(args), group); cut += read_again(args).batch_cuts) {
    const MatvecArgs& of_batch = read_again(args);
    const int count = min(of_batch.batch_cuts, end_cut(of_batch, group) - cut);
    Output output;
    int first = 0;
    do {  // k is not 0
      const MatvecArgs& here = read_again(args);
      const int all_records = records_of(here);
      Chunk chunk{memory, {}, here.tokens, first, min(here.chunk_records, all_records - first), 0};
      chunk.steps = chunk.records;
      chunk.shared.partials = shared_of(here).partials;
      const bool is_first = cut == first_cut(here, group) && first == 0;
      CutRun run;
      FirstLines lines;
      const auto begin = [&]() __attribute__((always_inline)) {
        run = run_at<way>(read_again(args), cut, count);
        lines.load(run, chunk, wave);
        if (first == 0) {
          output.template find<way>(read_again(args), chunk.tokens, cut, count);
        }
        if (is_first) {
          clear(read_again(args), memory);
        }
      };
      if (is_first || here.chunk_records < all_records) {
        const MatrixStage stage(here, chunk, shared_of(here).squares, all_records);
        stage.run(wave, begin);
        sync_shared();
        if (first + chunk.records == all_records) {
          const MatvecArgs& of_norm = read_again(args);
          find_factors(of_norm, shared_of(of_norm), memory, of_norm.tokens, records_of(of_norm), thread_here());
        }
      } else {  // the image is made once
        begin();
      }
      lines.keep();
      for_each_run<way>(
          read_again(args), run, cut, count,
          chunk.steps, [&](const CutRun& own) __attribute__((always_inline)) { walk_matrix(own, chunk, wave); });
      sync_shared();
      first += chunk.records;
    } while (first < records_of(read_again(args)));
    const MatvecArgs& at_end = read_again(args);
    const bool more = cut + count < end_cut(at_end, group);
    const Chunk sums{memory, shared_of(at_end), at_end.tokens, 0, 0, 0};
    output.template write<way>(at_end, sums, sums.tokens, count * partial_sums * sums.tokens * cut_rows<way>, more);
    if (more) {
      sync_shared();
    }
  }
}

}  // namespace rocmforge::amd

#endif
