#pragma once

// The filters of a row, in the order of SampleTokens. Each is a cut of an ordered list: none moves a token.

#include "kernels/sample/portable/sample.h"

namespace rocmforge::gpu {

/// What a row draws from, in the order of ids: the whole row (ids null), or a list of its best.
struct TokenList {
  const float* values;
  const std::int32_t* ids;
  int count;

  __device__ std::uint32_t key(int i) const { return logit_key(values[i]); }
  __device__ int id(int i) const { return ids == nullptr ? i : ids[i]; }
};

/// The last token kept of the order by descending logits, ascending ids.
struct LikelyEnd {
  std::uint32_t key = 1;
  int id = 0x7fffffff;

  __device__ bool keeps(std::uint32_t token_key, int token_id) const {
    return token_key > key || (token_key == key && token_id <= id);
  }
};

/// The tokens that the filters have left of a row.
struct Filter {
  LikelyEnd likely;
  bool typical = false;
  double log_sum = 0.0;  ///< log of the sum of exp(logit - top)
  double top = 0.0;
  double entropy = 0.0;
  std::uint64_t last_distance = 0;  ///< of the last token kept by typical-p, as bits: those of positive numbers are ordered
  LikelyEnd last_typical;           ///< among tokens of that distance

  __device__ std::uint64_t distance(std::uint32_t key) const {
    const double surprise = log_sum - (logit_of(key) - top);
    return __builtin_bit_cast(std::uint64_t, fabs(surprise - entropy));
  }
  __device__ bool keeps(std::uint32_t key, int id) const {
    if (!likely.keeps(key, id)) {
      return false;
    }
    if (!typical) {
      return true;
    }
    const std::uint64_t own = distance(key);
    return own < last_distance || (own == last_distance && last_typical.keeps(key, id));
  }
};

/// The largest key of what `filter` keeps.
__device__ inline std::uint32_t top_key(const TokenList& tokens, const Filter& filter, SampleShared& shared) {
  std::uint32_t best = 0;
  for (int i = thread_index(); i < tokens.count; i += sample_draw_threads) {
    const std::uint32_t key = tokens.key(i);
    best = key > best && filter.keeps(key, tokens.id(i)) ? key : best;
  }
  return static_cast<std::uint32_t>(block_reduce<Max>(static_cast<Mass>(best), shared.parts, Mass{0}));
}

/// The least mass that is at least `share` of `total`.
__device__ inline Mass share_of(float share, Mass total) {
  const Mass mass = static_cast<Mass>(ceil(static_cast<double>(share) * static_cast<double>(total)));
  return mass < 1 ? 1 : mass > total ? total : mass;
}

/// How tokens are ordered and cut.
struct Aim {
  bool counts = false;        ///< numbers of tokens in place of their masses
  bool by_distance = false;   ///< closest to the entropy first, in place of the likeliest
  bool one_distance = false;  ///< only among tokens at the filter's last distance
  double top = 0.0;           ///< logit of the most likely token
  Mass need = 0;              ///< the mass to keep, or all if there is less
  float share = 0.0f;         ///< the share of all to keep, where need is 0

  __device__ Mass mass(std::uint32_t key, const SampleShared& shared) const {
    return counts ? 1 : mass_at(logit_of(key) - top, shared);
  }
  __device__ Mass target(Mass total) const { return need == 0 ? share_of(share, total) : need < total ? need : total; }
  /// Whether the token takes part, and its place in the order.
  __device__ bool orders(const Filter& filter, std::uint32_t key, int id, std::uint64_t* order) const {
    if (!filter.keeps(key, id)) {
      return false;
    }
    if (!by_distance && !one_distance) {
      *order = key;
      return true;
    }
    const std::uint64_t distance = filter.distance(key);
    *order = by_distance ? ~distance : key;
    return by_distance || distance == filter.last_distance;
  }
};

/// The last token that a cut by descending logits keeps: of equal logits those with the lowest ids.
__device__ inline LikelyEnd likely_end(const TokenList& tokens, const Filter& filter, const Aim& aim, const Cut& cut,
                                       SampleShared& shared) {
  LikelyEnd end;
  end.key = static_cast<std::uint32_t>(cut.key);
  const Mass each = aim.mass(end.key, shared);
  const Mass wanted = (cut.need + each - 1) / each;
  if (wanted * each < cut.mass_there) {
    const int last = walk_list(
        tokens.count, shared,
        [&](int i) {
          std::uint64_t order;
          const std::uint32_t key = tokens.key(i);
          return key == end.key && aim.orders(filter, key, tokens.id(i), &order) ? Mass{1} : Mass{0};
        },
        [&](Mass) { return wanted - 1; });
    end.id = tokens.id(last);
  }
  return end;
}

/// Entropy of what `filter` keeps, into the filter.
__device__ inline void measure_entropy(const TokenList& tokens, double top, Filter& filter, SampleShared& shared) {
  double sum = 0.0;
  double weighted = 0.0;
#pragma unroll 1
  for (int i = thread_index(); i < tokens.count; i += sample_draw_threads) {
    const std::uint32_t key = tokens.key(i);
    const double below = logit_of(key) - top;
    if (key != 0 && below > -80.0 && filter.keeps(key, tokens.id(i))) {
      const double probability = exponential(below, shared);
      sum += probability;
      weighted += probability * below;
    }
  }
  double* const scratch = reinterpret_cast<double*>(shared.parts);
  sum = block_reduce<Sum>(sum, scratch, 0.0);
  weighted = block_reduce<Sum>(weighted, scratch, 0.0);
  filter.top = top;
  filter.log_sum = log(sum);
  filter.entropy = filter.log_sum - weighted / sum;
}

/// top-k, typical-p and top-p, as far as the row has them. Returns the logit of the most likely token left.
__device__ inline double keep_likely(const TokenList& tokens, const SampleRow& row, double top, Filter& filter,
                                     SampleShared& shared) {
  enum Stage { top_k, typical_distance, typical_end, top_p, stages };
  Mass need_there = 0;
#pragma unroll 1
  for (int stage = top_k; stage < stages; ++stage) {  // a loop, so that there is one copy of the code
    Aim aim;
    aim.top = top;
    if (stage == top_k && row.top_k > 0) {
      aim.counts = true;
      aim.need = static_cast<Mass>(row.top_k);
    } else if (stage == typical_distance && row.typical_p < 1.0f) {
      // Locally typical sampling (Meister and others 2022).
      measure_entropy(tokens, top, filter, shared);
      aim.by_distance = true;
      aim.share = row.typical_p;
    } else if (stage == typical_end && row.typical_p < 1.0f) {
      aim.one_distance = true;
      aim.need = need_there;
    } else if (stage == top_p && row.top_p < 1.0f) {
      aim.share = row.top_p;
    } else {
      continue;
    }
    const Cut cut = cut_list(
        tokens.count, aim.by_distance ? 64 : 32, shared,
        [&](int i, std::uint64_t* order) { return aim.orders(filter, tokens.key(i), tokens.id(i), order); },
        [&](int i) { return aim.mass(tokens.key(i), shared); }, [&](Mass total) { return aim.target(total); });
    if (stage == typical_distance) {
      filter.last_distance = ~cut.key;
      need_there = cut.need;
      continue;
    }
    const LikelyEnd end = likely_end(tokens, filter, aim, cut, shared);
    if (stage == typical_end) {
      filter.last_typical = end;
      filter.typical = true;
      top = logit_of(top_key(tokens, filter, shared));
    } else {
      filter.likely = end;
    }
  }
  return top;
}

/// Draws from what the filters and min_p leave: the place of the token in the list.
__device__ inline int draw_token(const TokenList& tokens, const SampleRow& row, double top, const Filter& filter,
                                 SampleShared& shared) {
  const double per_temperature = 1.0 / static_cast<double>(row.temperature);
  const double edge = row.min_p > 0.0f ? log(static_cast<double>(row.min_p)) : -1e300;  // of min_p
  return walk_list(
      tokens.count, shared,
      [&](int i) {
        const std::uint32_t key = tokens.key(i);
        const double below = logit_of(key) - top;
        if (key == 0 || below < edge || !filter.keeps(key, tokens.id(i))) {
          return Mass{0};
        }
        return mass_at(below * per_temperature, shared);
      },
      [&](Mass total) {
        const Mass reached = static_cast<Mass>(row.uniform * static_cast<double>(total));
        return reached < total ? reached : total - 1;
      });
}

}  // namespace rocmforge::gpu
