// Draws tokens from logits: every row's chunks are scanned by as many work-groups as it takes, then one work-group a row
// finishes.

#include "kernels/sample/portable/sample_filter.h"

namespace rocmforge::gpu {

/// Adjusts a stretch of a row, forbids what its mask forbids and finds the best token of each of its chunks.
/// Grid: [stretches of sample_scan_chunks chunks, rows].
ROCMFORGE_KERNEL __launch_bounds__(sample_scan_threads, 1) sample_scan(SampleArgs args) {
  begin_dependent();
  constexpr int waves = sample_scan_threads / wave_size;
  const int first_chunk = static_cast<int>(blockIdx.x) * sample_scan_chunks;
  const int begin = first_chunk * args.chunk_tokens;
  const int end = min(begin + sample_scan_chunks * args.chunk_tokens, args.vocab);
  for (int r = static_cast<int>(blockIdx.y); r < args.num_rows; r += static_cast<int>(gridDim.y)) {
    float* const logits = args.logits + static_cast<std::int64_t>(r) * args.vocab;
    const SampleRow& row = args.rows[r];
    const bool masked = row.mask >= 0;
    const std::uint32_t* const mask = args.masks + max(row.mask, 0) * static_cast<std::int64_t>(sample_mask_words(args.vocab));
    for (int a = thread_index(); a < row.num_adjustments; a += sample_scan_threads) {
      const SampleAdjustment adjustment = args.adjustments[row.first_adjustment + a];
      if (adjustment.id >= begin && adjustment.id < end) {
        logits[adjustment.id] = adjusted(logits[adjustment.id], row, adjustment);
      }
    }
    __syncthreads();
    for (int c = wave_index(); c < sample_scan_chunks; c += waves) {
      const int chunk = first_chunk + c;
      const int chunk_begin = chunk * args.chunk_tokens;
      const int chunk_end = min(chunk_begin + args.chunk_tokens, args.vocab);
      std::uint64_t best = 0;
#pragma unroll 4
      for (int id = chunk_begin + lane_index(); id < chunk_end; id += wave_size) {
        if (masked && !mask_allows(mask, id)) {
          logits[id] = -infinity;
          continue;
        }
        best = Max::combine(best, best_of(logit_key(logits[id]), id));
      }
      best = wave_reduce<Max>(best);
      if (lane_index() == 0 && chunk < SampleScratch::chunks) {
        args.scratch[r].best[chunk] = best;
      }
    }
  }
}

/// The best of a row's chunks, in every thread. Chunks beyond the vocabulary have not been written.
template <int threads>
__device__ inline std::uint64_t best_of_row(const SampleArgs& args, int r, std::uint64_t* scratch) {
  const int chunks = (args.vocab + args.chunk_tokens - 1) / args.chunk_tokens;
  std::uint64_t best = 0;
  for (int c = thread_index(); c < chunks; c += threads) {
    best = Max::combine(best, args.scratch[r].best[c]);
  }
  return block_reduce<Max>(best, scratch, std::uint64_t{0});
}

/// Grid: rows.
ROCMFORGE_KERNEL __launch_bounds__(sample_greedy_threads) sample_greedy(SampleArgs args) {
  begin_dependent();
  __shared__ std::uint64_t scratch[sample_greedy_threads / wave_size];
  for (int r = static_cast<int>(blockIdx.x); r < args.num_rows; r += static_cast<int>(gridDim.x)) {
    const std::uint64_t best = best_of_row<sample_greedy_threads>(args, r, scratch);
    if (thread_index() == 0) {
      args.out[r] = id_of_best(best);
    }
  }
}

/// All tokens that may be among the top_k most likely, in the order of ids. The top_k-th best of the chunks' best tokens is
/// no better than the top_k-th best token, so that only chunks whose best reaches it need be read. If these chunks hold too
/// many tokens, the list is the whole row.
__device__ inline TokenList gather_best(const SampleArgs& args, int r, int top_k, SampleShared& shared) {
  constexpr int waves = sample_draw_threads / wave_size;
  constexpr int wave_chunks = SampleScratch::chunks / waves;
  const TokenList all{args.logits + static_cast<std::int64_t>(r) * args.vocab, nullptr, args.vocab};
  SampleScratch& scratch = args.scratch[r];
  const int chunks = (args.vocab + args.chunk_tokens - 1) / args.chunk_tokens;
  if (top_k > chunks) {
    return all;
  }
  const Cut cut = cut_list(
      chunks, 32, shared,
      [&](int c, std::uint64_t* key) {
        *key = key_of_best(scratch.best[c]);
        return *key != 0;
      },
      [](int) { return Mass{1}; },
      [top_k](Mass total) { return static_cast<Mass>(top_k) < total ? static_cast<Mass>(top_k) : total; });
  const std::uint32_t least = cut.total < static_cast<Mass>(top_k) ? 1 : static_cast<std::uint32_t>(cut.key);

  // Counts first, then writes: the same walk twice, from the place where the wave's tokens begin.
  int place = 0;
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    const int first = wave_index() * wave_chunks;
#pragma unroll 1
    for (int c = first; c < min(first + wave_chunks, chunks); ++c) {
      if (key_of_best(scratch.best[c]) < least) {
        continue;
      }
      const int chunk_begin = c * args.chunk_tokens;
      const int chunk_end = min(chunk_begin + args.chunk_tokens, args.vocab);
#pragma unroll 1
      for (int from = chunk_begin; from < chunk_end; from += wave_size) {
        const int id = from + lane_index();
        const bool taken = id < chunk_end && all.key(id) >= least;
        const std::uint64_t takers = wave_ballot(taken);
        if (round == 1 && taken) {
          const int before = __popcll(takers & ((std::uint64_t{1} << lane_index()) - 1));
          scratch.values[place + before] = all.values[id];
          scratch.ids[place + before] = id;
        }
        place += __popcll(takers);
      }
    }
    if (round == 0) {
      __syncthreads();
      if (lane_index() == 0) {
        shared.parts[wave_index()] = static_cast<Mass>(place);
      }
      __syncthreads();
      place = 0;
      int total = 0;
#pragma unroll 2
      for (int w = 0; w < waves; ++w) {
        place += w < wave_index() ? static_cast<int>(shared.parts[w]) : 0;
        total += static_cast<int>(shared.parts[w]);
      }
      if (total > SampleScratch::candidates) {
        return all;
      }
      shared.total = static_cast<Mass>(total);
    }
  }
  __syncthreads();
  return {scratch.values, scratch.ids, static_cast<int>(shared.total)};
}

/// Grid: rows, exactly: a loop over rows would keep more values alive than there are registers.
ROCMFORGE_KERNEL __launch_bounds__(sample_draw_threads) sample_draw(SampleArgs args) {
  begin_dependent();
  __shared__ SampleShared shared;
  __shared__ Left left;
  __shared__ Filter filter;
  __shared__ Filter saved;
  __shared__ AdaptiveWeights weights;
  const int r = static_cast<int>(blockIdx.x);
  const SampleRow& row = args.rows[r];  // not a copy: its fields would take registers
  fill_roots(shared);
  const std::uint64_t best = best_of_row<sample_draw_threads>(args, r, reinterpret_cast<std::uint64_t*>(shared.parts));
  if (!(row.temperature > 0.0f) || best == 0) {
    if (thread_index() == 0) {
      args.out[r] = id_of_best(best);
    }
    return;
  }
  TokenList tokens{args.logits + static_cast<std::int64_t>(r) * args.vocab, nullptr, args.vocab};
  if (first_active(row) == SampleStage::top_k) {
    tokens = gather_best(args, r, row.top_k, shared);
  }
  change([&] {
    filter.keep_all();
    left = {logit_of(key_of_best(best)), 1.0};
  });
  apply_stages(tokens, row, args.vocab, left, filter, saved, shared);
  const int place = draw_token(tokens, row, left, filter, weights, shared);
  if (thread_index() == 0) {
    args.out[r] = tokens.id(place);
    if (args.probabilities != nullptr && tells_probability(row)) {
      const Mass mass = left.mass(tokens.key(place), shared);
      args.probabilities[r] = static_cast<float>(static_cast<double>(mass) / static_cast<double>(weights.all));
    }
  }
}

}  // namespace rocmforge::gpu
