#pragma once

// The stages of a row. Each leaves a part of an ordered list: none moves a token.

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
  std::uint32_t key;
  int id;

  __device__ bool keeps(std::uint32_t token_key, int token_id) const {
    return token_key > key || (token_key == key && token_id <= id);
  }
  /// Keeps no logits below `least`.
  __device__ void raise(double least) {
    std::uint32_t own = logit_key(static_cast<float>(least));
    own += own != 0 && logit_of(own) < least ? 1 : 0;
    if (own > key) {
      key = own;
      id = 0x7fffffff;
    }
  }
};

/// The first token kept of that order.
struct LikelyBegin {
  std::uint32_t key;
  int id;

  __device__ bool keeps(std::uint32_t token_key, int token_id) const {
    return token_key < key || (token_key == key && token_id >= id);
  }
};

/// Of the tokens left at some stage.
struct Entropy {
  double top;      ///< logit of the most likely one
  double scale;    ///< of logits: 1 / temperature
  double log_sum;  ///< log of the sum of exp((logit - top) * scale)
  double entropy;
};

/// The tokens that the stages have left of a row. It lies in shared memory: its values would take registers.
struct Filter {
  LikelyEnd likely;
  LikelyBegin begin;
  bool typical;
  Entropy before;               ///< typical-p
  std::uint64_t last_distance;  ///< of the last token kept by typical-p, as bits: those of positive numbers are ordered
  LikelyEnd last_typical;       ///< among tokens of that distance

  /// By one thread.
  __device__ void keep_all() {
    likely = {1, 0x7fffffff};
    begin = {0xffffffffu, -1};
    typical = false;
  }
  __device__ std::uint64_t distance(std::uint32_t key) const {
    const double surprise = before.log_sum - (logit_of(key) - before.top) * before.scale;
    return __builtin_bit_cast(std::uint64_t, fabs(surprise - before.entropy));
  }
  __device__ bool keeps(std::uint32_t key, int id) const {
    if (!likely.keeps(key, id) || !begin.keeps(key, id)) {
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
  double scale = 1.0;         ///< of logits: 1 / temperature
  Mass need = 0;              ///< the mass to keep, or all if there is less
  float share = 0.0f;         ///< the share of all to keep, where need is 0

  __device__ Mass mass(std::uint32_t key, const SampleShared& shared) const {
    return counts ? 1 : mass_at((logit_of(key) - top) * scale, shared);
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
  LikelyEnd end{static_cast<std::uint32_t>(cut.key), 0x7fffffff};
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

/// The sum over all tokens that `filter` keeps, the same in every thread.
template <class Value>
__device__ inline double sum_of(const TokenList& tokens, const Filter& filter, SampleShared& shared, Value value) {
  double sum = 0.0;
#pragma unroll 1
  for (int i = thread_index(); i < tokens.count; i += sample_draw_threads) {
    const std::uint32_t key = tokens.key(i);
    sum += key != 0 && filter.keeps(key, tokens.id(i)) ? value(key) : 0.0;
  }
  return block_reduce<Sum>(sum, reinterpret_cast<double*>(shared.parts), 0.0);
}

__device__ inline Entropy measure_entropy(const TokenList& tokens, double top, double scale, const Filter& filter,
                                          SampleShared& shared) {
  double weighted = 0.0;
  const auto weight = [&](std::uint32_t key) {
    const double below = (logit_of(key) - top) * scale;
    const double probability = below > -80.0 ? exponential(below, shared) : 0.0;
    weighted += probability * (below > -80.0 ? below : 0.0);
    return probability;
  };
  const double sum = sum_of(tokens, filter, shared, weight);
  weighted = block_reduce<Sum>(weighted, reinterpret_cast<double*>(shared.parts), 0.0);
  const double log_sum = log(sum);
  return {top, scale, log_sum, log_sum - weighted / sum};
}

/// base^exponent for a base in [0, 1]; the library's power takes more registers.
__device__ inline double power_of(double base, double exponent, const SampleShared& shared) {
  const double logarithm = exponent * log(base < 1e-300 ? 1e-300 : base);
  return logarithm < -500.0 ? 0.0 : exponential(logarithm, shared);
}

/// The row's scale of logits, 1 / temperature.
__device__ inline double scale_of_temperature(const TokenList& tokens, const SampleRow& row, double top,
                                              const Filter& filter, SampleShared& shared) {
  double temperature = static_cast<double>(row.temperature);
  if (row.temperature_range > 0.0f) {
    const double count = sum_of(tokens, filter, shared, [](std::uint32_t) { return 1.0; });
    if (count > 1.0) {
      const double share = measure_entropy(tokens, top, 1.0, filter, shared).entropy / log(count);
      const double inside = share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share;
      temperature = dynamic_temperature(row, power_of(inside, static_cast<double>(row.temperature_exponent), shared));
    }
  }
  return 1.0 / (temperature < least_temperature ? least_temperature : temperature);
}

/// The least logit within n standard deviations of the largest (Tang and others 2024).
__device__ inline double least_of_sigma(const TokenList& tokens, float n, double top, const Filter& filter,
                                        SampleShared& shared) {
  const double count = sum_of(tokens, filter, shared, [](std::uint32_t) { return 1.0; });
  const double mean = sum_of(tokens, filter, shared, [](std::uint32_t key) { return logit_of(key); }) / count;
  const double squares =
      sum_of(tokens, filter, shared, [mean](std::uint32_t key) { return (logit_of(key) - mean) * (logit_of(key) - mean); });
  return top - static_cast<double>(n) * sqrt(squares / count);
}

/// The least likely token whose probability reaches `threshold`; what is kept now begins there.
__device__ inline LikelyBegin begin_of_xtc(const TokenList& tokens, float threshold, double top, double scale,
                                           const Filter& filter, SampleShared& shared) {
  const auto mass = [&](std::uint32_t key) { return static_cast<double>(mass_at((logit_of(key) - top) * scale, shared)); };
  const double least = static_cast<double>(threshold) * sum_of(tokens, filter, shared, mass);
  Mass last = 0;  // the complement of best_of(), whose largest is the least likely
#pragma unroll 1
  for (int i = thread_index(); i < tokens.count; i += sample_draw_threads) {
    const std::uint32_t key = tokens.key(i);
    const int id = tokens.id(i);
    if (key != 0 && filter.keeps(key, id) && mass(key) >= least) {
      last = Max::combine(last, ~static_cast<Mass>(best_of(key, id)));
    }
  }
  last = block_reduce<Max>(last, shared.parts, Mass{0});
  LikelyBegin begin = filter.begin;
  if (last != 0) {
    begin.key = key_of_best(~last);
    begin.id = id_of_best(~last);
  }
  return begin;
}

/// The logits' scale and largest one among what the stages leave.
struct Left {
  double top;
  double scale = 1.0;
};

/// Changes what all threads have read, by one of them; `act` may use what every thread has computed together.
template <class Act>
__device__ inline void change(Act act) {
  if (thread_index() == 0) {
    act();
  }
  __syncthreads();
}

/// Applies the row's stages to the list, whose largest logit is `top`.
__device__ inline Left apply_stages(const TokenList& tokens, const SampleRow& row, double top, Filter& filter,
                                    SampleShared& shared) {
  Left left{top};
  Mass need_there = 0;
  bool at_distance = false;
#pragma unroll 1
  for (int s = 0; s < SampleRow::num_stages;) {  // a loop, so that there is one copy of the code
    const SampleStage stage = row.stages[s];
    s += stage == SampleStage::typical_p && !at_distance && is_active(row, stage) ? 0 : 1;  // typical-p takes two cuts
    if (!is_active(row, stage)) {
      continue;
    }
    Aim aim;
    aim.top = left.top;
    aim.scale = left.scale;
    if (stage == SampleStage::temperature) {
      left.scale = scale_of_temperature(tokens, row, left.top, filter, shared);
      continue;
    }
    if (stage == SampleStage::min_p) {
      const double least = left.top + log(static_cast<double>(row.min_p)) / left.scale;
      change([&] { filter.likely.raise(least); });
      continue;
    }
    if (stage == SampleStage::top_n_sigma) {
      const double least = least_of_sigma(tokens, row.top_n_sigma, left.top, filter, shared);
      change([&] { filter.likely.raise(least); });
      continue;
    }
    if (stage == SampleStage::xtc) {
      const LikelyBegin begin = begin_of_xtc(tokens, row.xtc_threshold, left.top, left.scale, filter, shared);
      change([&] { filter.begin = begin; });
      left.top = logit_of(top_key(tokens, filter, shared));
      continue;
    }
    if (stage == SampleStage::top_k) {
      aim.counts = true;
      aim.need = static_cast<Mass>(row.top_k);
    } else if (stage == SampleStage::top_p) {
      aim.share = row.top_p;
    } else if (!at_distance) {
      // Locally typical sampling (Meister and others 2022).
      const Entropy found = measure_entropy(tokens, left.top, left.scale, filter, shared);
      change([&] { filter.before = found; });
      aim.by_distance = true;
      aim.share = row.typical_p;
    } else {
      aim.one_distance = true;
      aim.need = need_there;
    }
    const Cut cut = cut_list(
        tokens.count, aim.by_distance ? 64 : 32, shared,
        [&](int i, std::uint64_t* order) { return aim.orders(filter, tokens.key(i), tokens.id(i), order); },
        [&](int i) { return aim.mass(tokens.key(i), shared); }, [&](Mass total) { return aim.target(total); });
    if (aim.by_distance) {
      change([&] { filter.last_distance = ~cut.key; });
      need_there = cut.need;
      at_distance = true;
      continue;
    }
    const LikelyEnd end = likely_end(tokens, filter, aim, cut, shared);
    if (aim.one_distance) {
      change([&] {
        filter.last_typical = end;
        filter.typical = true;
      });
      left.top = logit_of(top_key(tokens, filter, shared));
    } else {
      change([&] { filter.likely = end; });
    }
  }
  return left;
}

/// Draws from what the stages leave: the place of the token in the list.
__device__ inline int draw_token(const TokenList& tokens, const SampleRow& row, const Left& left, const Filter& filter,
                                 SampleShared& shared) {
  return walk_list(
      tokens.count, shared,
      [&](int i) {
        const std::uint32_t key = tokens.key(i);
        if (key == 0 || !filter.keeps(key, tokens.id(i))) {
          return Mass{0};
        }
        return mass_at((logit_of(key) - left.top) * left.scale, shared);
      },
      [&](Mass total) {
        const Mass reached = static_cast<Mass>(row.uniform * static_cast<double>(total));
        return reached < total ? reached : total - 1;
      });
}

}  // namespace rocmforge::gpu
