#pragma once

// Products of packed weights (weight_layout.h) with a few tokens: every weight is read once, 16 bytes a lane.
//
// A work-group quantises the activations for itself while its first weights are in flight, then walks over its tiles. Wave w
// takes steps w, w + waves, ... of the sequence of all records of these tiles: a lane multiplies one piece of each of two
// rows, and eight neighbouring lanes the eight pieces of a row's record. Each record's sum is added to partial sum record %
// 16 of its row in shared memory, in the order of the records; at the end of a batch of tiles the partial sums are added up
// in their order. So a token's result has the same bits for any number of tokens, rows and work-groups, and for both wave
// sizes.

#include "kernels/matmul/amd/matvec_formats.h"
#include "kernels/matmul/amd/matvec_image.h"
#include "kernels/tile/activation.h"

namespace rocmforge::amd {

inline constexpr int matvec_waves = matvec_threads / gpu::wave_size;
/// Records of a wave's step.
inline constexpr int step_records = gpu::wave_size / team_lanes;
template <MatvecWay way>
inline constexpr bool is_single = way == MatvecWay::one_token || way == MatvecWay::one_token_halves;
/// Rows of a cut: a tile, half of one, or two.
template <MatvecWay way>
inline constexpr int cut_rows = matvec_cut_rows(way);
/// Pieces of a lane's step, in rows half a tile from each other.
template <MatvecWay way>
inline constexpr int step_pieces = cut_rows<way>* record_pieces / team_lanes;

/// A run: cuts of one part that a work-group takes one after another. Products of experts have runs of their own, with the
/// same members but weight, tile_bytes, first and slot.
struct CutRun {
  const std::uint8_t* weight;  ///< of the part
  int tile_bytes;
  int record_bytes;
  WeightFormat format;
  int first;    ///< cut of the part
  int count;    ///< cuts
  int slot;     ///< the first one's place among the batch's partial sums
  int earlier;  ///< steps of the batch before this run, modulo the waves
  int n;        ///< rows of the part: a cut of two tiles may extend past them

  /// Where the tile of cut `cut` of the run begins.
  template <MatvecWay way>
  __device__ const std::uint8_t* tile(int cut) const {
    return weight + std::int64_t{(first + cut) / (weight_tile_rows / cut_rows<way>)} * tile_bytes;
  }
  /// Which part of its tile the cut is.
  template <MatvecWay way>
  __device__ int part_of_tile(int cut) const {
    return (first + cut) % (weight_tile_rows / cut_rows<way>);
  }
  /// The first of the cut's partial sums, and bytes to the image of its activations.
  __device__ int sums(int cut) const { return (slot + cut) * partial_sums; }
  __device__ static int image(int) { return 0; }
};

/// Calls body(i) with the part that cut `cut` of the launch belongs to, and before that with each earlier part. With one
/// token and waves of 32 all parts are read at once, so that no look-up by a loaded number has to be waited for; the other
/// kernels lack the scalar registers for that.
template <MatvecWay way, class Body>
__device__ __forceinline__ void select_part(const MatvecArgs& args, int cut, const Body& body) {
  body(0);
  constexpr int unrolled = is_single<way> && gpu::wave_size == 32 ? most_matvec_parts : 1;
#pragma unroll unrolled
  for (int i = 1; i < most_matvec_parts; ++i) {
    if (i < args.num_parts && cut >= args.parts[i].first_cut) {
      body(i);
    }
  }
}

/// Cuts of part i, of which `first` is one.
__device__ __forceinline__ CutRun run_of(const MatvecArgs& args, int i, int first, int count) {
  const MatvecPart& part = args.parts[i];
  return {part.weight, part.tile_bytes, part.record_bytes, part.format, first, count, 0, 0, part.n};
}

/// The run of up to `count` cuts that starts at cut `cut` of the launch; with a gate, of the gate's.
template <MatvecWay way>
__device__ __forceinline__ CutRun run_at(const MatvecArgs& args, int cut, int count) {
  constexpr int rows = cut_rows<way>;
  if constexpr (gpu::wave_size == 64) {
    int part = 0;
#pragma unroll
    for (int i = 1; i < most_matvec_parts; ++i) {  // without branches, so that all are read at once
      part += static_cast<int>(i < args.num_parts) & static_cast<int>(args.gated == 0) &
              static_cast<int>(cut >= args.parts[i].first_cut);
    }
    const int first = cut - (part == 0 ? 0 : args.parts[part].first_cut);
    return run_of(args, part, first, min(count, (args.parts[part].n + rows - 1) / rows - first));
  }
  CutRun run{};
  select_part<way>(
      args, args.gated != 0 ? 0 : cut, [&](int i) __attribute__((always_inline)) {
        const int first = i == 0 ? cut : cut - args.parts[i].first_cut;
        const int cuts = (args.parts[i].n + rows - 1) / rows;
        run = run_of(args, i, first, min(count, cuts - first));
      });
  return run;
}

/// Calls body(run) for the runs of cuts [first, first + count) of the launch, or of both of its parts; `run` is the first.
template <MatvecWay way, class Body>
__device__ __forceinline__ void for_each_run(const MatvecArgs& args, CutRun run, int first, int count, int steps,
                                             const Body& body) {
  int done = 0;
  while (true) {
    run.slot = done;
    run.earlier = done * steps % matvec_waves;
    body(run);
    done += run.count;
    const MatvecArgs& here = read_again(args);  // only here: earlier, the first loads would wait for it
    const bool gated = here.gated != 0;
    if (done >= (gated ? 2 * count : count)) {
      return;
    }
    run = gated ? run_of(here, 1, first, count) : run_at<way>(here, first + done, count - done);
  }
}

/// The position of a wave in the steps of a run: step s of cut i of the run. `earlier`: the batch's steps before the run,
/// modulo the waves.
class Walk {
 public:
  __device__ __forceinline__ Walk(int earlier, int steps, int wave)
      : cut(0), step((wave - earlier + matvec_waves) % matvec_waves), steps_(steps), cuts_(0), rest_(matvec_waves) {
    for (; step >= steps; step -= steps) {  // at most a step for each wave
      ++cut;
    }
    for (; rest_ >= steps; rest_ -= steps) {
      ++cuts_;
    }
  }
  __device__ __forceinline__ void advance() {
    cut += cuts_;
    step += rest_;
    if (step >= steps_) {
      step -= steps_;
      ++cut;
    }
  }
  /// Advances, but not past the run's `count` cuts.
  __device__ __forceinline__ void advance_within(int count) {
    const int old_cut = cut;
    const int old_step = step;
    advance();
    const bool left = cut >= count;
    cut = left ? old_cut : cut;
    step = left ? old_step : step;
  }
  /// The number of the step among those of the run.
  __device__ int number() const { return cut * steps_ + step; }
  int cut;
  int step;

 private:
  int steps_;
  int cuts_;
  int rest_;
};

template <MatvecWay way, class Run>
__device__ __forceinline__ GlobalBytes step_address(const Run& run, const Walk& walk, int first_record) {
  return uniform(run.template tile<way>(walk.cut) +
                 static_cast<std::int64_t>(first_record + walk.step * step_records) * run.record_bytes);
}

template <MatvecWay way, class Run>
__device__ __forceinline__ LanePlace lane_place(const Run& run, const Walk& walk, int lane, int record_bytes) {
  const int within = run.template part_of_tile<way>(walk.cut);
  return {static_cast<unsigned>(lane % team_lanes + within * step_pieces<way> * team_lanes),
          static_cast<unsigned>(lane / team_lanes * record_bytes)};
}

/// The values of a chunk of k that are the same for all waves of a work-group.
struct Chunk {
  std::uint8_t* memory;
  MatvecShared shared;
  int tokens;
  int first;  ///< record
  int records;
  int steps;
};

/// Adds a record's products with all tokens to the partial sums.
template <class Format, MatvecWay way, class Run>
__device__ __forceinline__ void multiply(const typename Format::Raw (&raw)[step_pieces<way>], const Run& run,
                                         const Walk& walk, const Chunk& chunk, int lane) {
#pragma clang fp contract(off)
  constexpr int pieces = step_pieces<way>;
  constexpr int rows = cut_rows<way>;
  const int piece = lane % record_pieces;
  const int record = walk.step * step_records + lane / team_lanes;
  std::uint32_t codes[pieces][8];
  PieceAffine affine[pieces];
#pragma unroll
  for (int h = 0; h < pieces; ++h) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      codes[h][i] = Format::code_word(raw[h], i / 4, i % 4);
    }
    affine[h] = Format::affine(raw[h]);
  }
  const std::uint8_t* image = chunk.memory + run.image(walk.cut) + record * image_record_bytes + piece * 16;
  const int row = lane % team_lanes / record_pieces;  // and, of a whole tile, the one half a tile on
  const int sum = run.sums(walk.cut) + (chunk.first + record) % partial_sums;
  const int tokens = is_single<way> ? 1 : chunk.tokens;
  float* to = reinterpret_cast<float*>(chunk.memory + chunk.shared.partials) + sum * tokens * rows + row;
#pragma unroll 1
  for (int t = 0; t < tokens; ++t) {
    constexpr int plane = record_pieces * 16;
    std::uint32_t upper[8];
    std::uint32_t lower[8];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto high = *reinterpret_cast<const uint4*>(image + i * plane);
      const auto low = *reinterpret_cast<const uint4*>(image + (2 + i) * plane);
      upper[4 * i] = high.x, upper[4 * i + 1] = high.y, upper[4 * i + 2] = high.z, upper[4 * i + 3] = high.w;
      lower[4 * i] = low.x, lower[4 * i + 1] = low.y, lower[4 * i + 2] = low.z, lower[4 * i + 3] = low.w;
    }
    const auto info = *reinterpret_cast<const float4*>(image + 4 * plane);
    float values[pieces];
#pragma unroll
    for (int h = 0; h < pieces; ++h) {
      int uppers[2] = {};
      int lowers[2] = {};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        constexpr bool halves = Format::halves;
        uppers[halves ? i / 4 : 0] = dot_bytes(codes[h][i], upper[i], uppers[halves ? i / 4 : 0]);
        lowers[halves ? i / 4 : 0] = dot_bytes(codes[h][i], lower[i], lowers[halves ? i / 4 : 0]);
      }
      float value = affine[h].scale[0] * static_cast<float>(uppers[0] * 256 + lowers[0]);
      if constexpr (Format::halves) {
        value = fmaf(affine[h].scale[1], static_cast<float>(uppers[1] * 256 + lowers[1]), value);
        if constexpr (Format::has_offset) {
          value = fmaf(affine[h].offset[0], info.y, value);
          value = fmaf(affine[h].offset[1], info.z, value);
        }
      } else if constexpr (Format::has_offset) {
        value = fmaf(affine[h].offset[0], info.w, value);
      }
      values[h] = value * info.x;
    }
#pragma unroll
    for (float& value : values) {  // the first of eight lanes ends with the sum over the row's pieces
      value += exchange<7>(value);
      value += exchange<2>(value);
      value += exchange<1>(value);
    }
    if (piece == 0 && (step_records == 1 || record < chunk.records)) {
#pragma unroll
      for (int h = 0; h < pieces; ++h) {
        add_shared(to + h * (weight_tile_rows / 2), values[h]);
      }
    }
    image += chunk.shared.token_bytes;
    to += rows;
  }
}

/// Computes all of a wave's steps of a run. Four pieces of a lane are in flight at once; after the last step it is loaded
/// again, without a wait.
template <WeightFormat format, MatvecWay way, class Run>
__device__ __forceinline__ void walk_run(const Run& run, const Chunk& chunk, int wave) {
  using Format = PackedFormat<format>;
  const int lane = lane_here();
  Walk walk(run.earlier, chunk.steps, wave);
  int left = (run.count * chunk.steps - walk.number() + matvec_waves - 1) / matvec_waves;
  if (left <= 0) {
    return;
  }
  Walk ahead = walk;
  constexpr int pieces = step_pieces<way>;
  typename Format::Raw raw[4 / pieces][pieces];
  const auto load = [&](typename Format::Raw(&to)[pieces]) __attribute__((always_inline)) {
    const GlobalBytes at = step_address<way>(run, ahead, chunk.first);
    const LanePlace place = lane_place<way>(run, ahead, lane, Format::layout.record_bytes);
#pragma unroll
    for (int h = 0; h < pieces; ++h) {
      to[h] = Format::load(at, place, h * team_lanes);
    }
    ahead.advance_within(run.count);
  };
#pragma unroll
  for (auto& own : raw) {
    load(own);
  }
  // One exit from the loop, and every load on each path: the compiler, which considers all paths, would otherwise wait for
  // younger loads than the one that it needs.
  constexpr int steps = 4 / pieces;
  do {
#pragma unroll
    for (int i = 0; i < steps; ++i) {
      if (i == 0 || i < left) {
        multiply<Format, way>(raw[i], run, walk, chunk, lane);
      }
      walk.advance();
      load(raw[i]);
    }
    left -= steps;
  } while (left > 0);
}

template <MatvecWay way, class Run>
__device__ __forceinline__ void walk_run(const Run& run, const Chunk& chunk, int wave) {
  visit_weight_format<way>(
      run.format, [&]<WeightFormat format>() __attribute__((always_inline)) { walk_run<format, way>(run, chunk, wave); });
}

/// The codes of a wave's first step, and a word of each line with the rest of its records, which prefetches these lines
/// while a token's activations are quantised. The later loads find them in the cache.
template <MatvecWay way>
struct FirstStep {
  static constexpr int pieces = step_pieces<way>;
  uint4 quants[pieces];
  std::uint32_t rest;

  template <class Run>
  __device__ __forceinline__ void load(const Run& run, int steps, int wave) {
    Walk walk(run.earlier, steps, wave);
    walk.cut = min(walk.cut, run.count - 1);  // a wave without work takes another's
    const GlobalBytes at = step_address<way>(run, walk, 0);
    const LanePlace lane = lane_place<way>(run, walk, gpu::lane_index(), run.record_bytes);
#pragma unroll
    for (int h = 0; h < pieces; ++h) {
      quants[h] = load_at<uint4>(at, lane.record + 16 * lane.piece, h * team_lanes * 16);
    }
    const auto last = static_cast<unsigned>(max(run.record_bytes - first_read_bytes, 0));  // a short record is all read
    const unsigned apart = (last / (team_lanes - 1) + 4) / 4 * 4;
    const unsigned own = static_cast<unsigned>(gpu::lane_index()) % team_lanes * apart;
    rest = load_at<std::uint32_t>(at, lane.record + min(own, last), code_plane_bytes);
  }
  __device__ void keep() const {
#pragma unroll
    for (const uint4& own : quants) {
      amd::keep(own);
    }
    asm volatile("" ::"v"(rest));
  }
};

/// A thread's output of a batch of tiles: at most matvec_threads are in one.
struct Output {
  float* out = nullptr;  ///< null: none
  int place = 0;         ///< of its first partial sum
  int t = 0;
  float scale = 1.0f;
  float bias = 0.0f;
  float up_bias = 0.0f;
  float before = 0.0f;

  /// Finds the output in tiles [first, first + count) of the launch. Its loads are in flight while the sums are made.
  template <MatvecWay way>
  __device__ __forceinline__ void find(const MatvecArgs& args, int tokens, int first, int count) {
    constexpr int rows = cut_rows<way>;
    const int stride = tokens * rows;
    const int item = gpu::thread_index() / stride;
    const int within = gpu::thread_index() - item * stride;
    const int tile = first + item;
    place = item * partial_sums * stride + within;
    t = within / rows;
    if (item >= count) {
      return;
    }
    const float* biases = nullptr;
    bool accumulate = false;
    int row = 0;
    select_part<way>(
        args, args.gated != 0 ? 0 : tile, [&](int i) __attribute__((always_inline)) {
          const MatvecPart& part = args.parts[i];
          row = (i == 0 ? tile : tile - part.first_cut) * rows + within % rows;
          asm volatile("" ::"s"(part.out), "s"(part.bias), "s"(part.stride), "s"(part.n), "s"(part.accumulate));  // at once
          if constexpr (way != MatvecWay::matrix) {  // which has no scalar register for it
            asm volatile("" ::"s"(part.scale));
          }
          const bool used = row < part.n;
          out = used ? part.out + t * part.stride + row : nullptr;
          biases = used ? part.bias : nullptr;
          accumulate = part.accumulate != 0;
          scale = part.scale;
        });
    if (out == nullptr) {
      return;
    }
    if (biases != nullptr) {
      bias = ((Global<const float>)biases)[row];
    }
    if (accumulate) {
      before = *(Global<const float>)out;
    }
    if (args.gated != 0 && args.parts[1].bias != nullptr) {
      up_bias = ((Global<const float>)args.parts[1].bias)[row];
    }
  }

  /// Adds up the partial sums; leaves zeros where `again`. `up`: from the gate's sums to those of up.
  template <MatvecWay way>
  __device__ __forceinline__ void write(const MatvecArgs& args, const Chunk& chunk, int tokens, int up, bool again) const {
    if (out == nullptr) {
      return;
    }
    int stride = tokens * cut_rows<way>;
    if constexpr (!is_single<way>) {
      asm volatile("" : "+s"(stride));  // its multiples are not computed before and kept
    }
    auto* const sums = reinterpret_cast<float*>(chunk.memory + chunk.shared.partials) + place;
    const float factor = reinterpret_cast<const float*>(chunk.memory + chunk.shared.factors)[t];
    const auto sum_of = [&](float* from) __attribute__((always_inline)) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < partial_sums; ++i) {
        sum += from[i * stride];
      }
      if (again) {
#pragma unroll
        for (int i = 0; i < partial_sums; ++i) {
          from[i * stride] = 0.0f;
        }
      }
      return sum * factor;
    };
    float y = fmaf(sum_of(sums), scale, bias);
    if (args.gated != 0) {
      y = gpu::activate(args.activation, y, fmaf(sum_of(sums + up), args.parts[1].scale, up_bias));
    }
    *(Global<float>)out = before + y;
  }
};

/// Reads at once the arguments that a work-group begins with, not each of them where a branch first needs it.
__device__ __forceinline__ void read_first(const MatvecArgs& args) {
  asm volatile("" ::"s"(args.x), "s"(args.norm_weight), "s"(args.k), "s"(args.tokens), "s"(args.num_parts), "s"(args.cuts),
               "s"(args.gated), "s"(args.group_cuts), "s"(args.batch_cuts), "s"(args.chunk_records),
               "s"(args.parts[1].first_cut), "s"(args.parts[2].first_cut), "s"(args.parts[3].first_cut));
}

/// A call that is a launch of its own.
struct OwnLaunch {
  __device__ static constexpr bool is_first() { return true; }
  __device__ static void wait() {}
};

/// Work-group `group` of the call. `order`: whether the call is the launch's first, and the wait for the call before it.
template <MatvecWay way, class Order>
__device__ __forceinline__ void matvec(const MatvecArgs& args, int group, const Order& order) {
  if constexpr (is_single<way>) {
    read_first(args);
  }
  HIP_DYNAMIC_SHARED(uint4, dynamic)
  auto* const memory = reinterpret_cast<std::uint8_t*>(dynamic);
  const int all_records = (args.k + record_elems - 1) / record_elems;
  const int begin = group * args.group_cuts;
  const int end = min(begin + args.group_cuts, args.cuts);
  constexpr int rounds = is_single<way> ? 3 : 1;  // of the teams, whose activations are loaded together
  const int wave = uniform(gpu::wave_index());
  Chunk chunk{memory, {}, is_single<way> ? 1 : args.tokens, 0, 0, 0};
  chunk.shared = matvec_shared(chunk.tokens, cut_rows<way>, args.chunk_records, all_records,
                               (args.gated != 0 ? 2 : 1) * args.batch_cuts);
  const auto begin_chunk = [&](int first) {
    chunk.first = first;
    chunk.records = min(args.chunk_records, all_records - first);
    chunk.steps = (chunk.records + step_records - 1) / step_records;
  };
  begin_chunk(0);
  const int team = gpu::thread_index() / team_lanes;
  Activations loaded[rounds];
  const auto load = [&]() __attribute__((always_inline)) {
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      load_activations(args, 0, team + i * teams, loaded[i]);
    }
  };
  const bool at_once = order.is_first();
  if (at_once) {
    load();
  }
  CutRun run{};
  FirstStep<way> weights;
  if constexpr (is_single<way>) {
    run = run_at<way>(args, begin, min(args.batch_cuts, end - begin));
    weights.load(run, chunk.steps, wave);
  }
  auto* const sums = reinterpret_cast<float*>(memory + chunk.shared.partials);
  for (int at = gpu::thread_index(); at < (chunk.shared.squares - chunk.shared.partials) / 4; at += matvec_threads) {
    sums[at] = 0.0f;
  }
  Output output;
  const Stage stage{args, chunk.shared, memory, chunk.tokens, 0, chunk.records, all_records};
  const auto put = [&]() __attribute__((always_inline)) {
    output.template find<way>(args, chunk.tokens, begin, min(args.batch_cuts, end - begin));
#pragma unroll
    for (int i = 0; i < rounds; ++i) {
      if (team + i * teams < stage.padded()) {
        stage.put(0, team + i * teams, loaded[i]);
      }
    }
  };
  if (at_once) {  // apart: where both paths met before, these would wait for the weights too
    put();
  } else {
    order.wait();
    load();
    put();
  }
  const bool whole = args.chunk_records >= all_records;  // the image is made once
  for (int tile = begin; tile < end; tile += args.batch_cuts) {
    const int count = min(args.batch_cuts, end - tile);
    const int up = count * partial_sums * chunk.tokens * cut_rows<way>;
    int first = 0;
    do {  // k is not 0
      begin_chunk(first);
      const bool is_first = tile == begin && first == 0;
      if (is_first || !whole) {
        const MatvecArgs& again = is_single<way> ? args : read_again(args);
        Stage{again, chunk.shared, memory, chunk.tokens, first, chunk.records, all_records}.put_others(is_first ? rounds
                                                                                                                : 0);
        sync_shared();
        if (first + chunk.records == all_records) {
          find_factors(again, chunk.shared, memory, chunk.tokens, all_records);
        }
      }
      if (is_single<way> && is_first) {
        weights.keep();
      }
      const MatvecArgs& here = read_again(args);
      for_each_run<way>(
          here, is_single<way> ? run : run_at<way>(here, tile, count), tile, count,
          chunk.steps, [&](const CutRun& own) __attribute__((always_inline)) { walk_run<way>(own, chunk, wave); });
      sync_shared();
      first += args.chunk_records;
    } while (first < all_records);
    const bool more = tile + args.batch_cuts < end;
    output.template write<way>(is_single<way> ? args : read_again(args), chunk, chunk.tokens, up, more);
    if (more) {
      const int next = tile + args.batch_cuts;
      output = {};
      if constexpr (is_single<way>) {
        run = run_at<way>(read_again(args), next, min(args.batch_cuts, end - next));
      }
      output.template find<way>(read_again(args), chunk.tokens, next, min(args.batch_cuts, end - next));
      sync_shared();
    }
  }
}

}  // namespace rocmforge::amd
