#pragma once

// The stages of a row. Each leaves a part of an ordered list: none moves a token.

#include "kernels/sample/portable/sample.h"
#include "kernels/tile/device_memory.h"

namespace rocmforge::gpu {

/// What a row draws from, in the order of ids: the whole row (ids null), or a list of its best.
struct TokenList {
  const float* values;
  const std::int32_t* ids;
  int count;

  __device__ std::uint32_t key(int i) const { return logit_key(device_memory(values)[i]); }
  __device__ int id(int i) const { return ids == nullptr ? i : device_memory(ids)[i]; }
};

/// Shared memory that is read where it is used: on NVIDIA there are fewer registers than values that loops would keep there.
/// On AMD there are enough, and such reads would not be of shared memory by their instruction.
#if ROCMFORGE_DEVICE_AMD
template <class T>
using EachTime = const T;
#else
template <class T>
using EachTime = const volatile T;
#endif

template <class T>
__device__ inline EachTime<T>& each_time(const T& value) {
  return value;
}

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
    EachTime<Entropy>& now = each_time(before);
    const double surprise = now.log_sum - (logit_of(key) - now.top) * now.scale;
    return __builtin_bit_cast(std::uint64_t, fabs(surprise - now.entropy));
  }
  __device__ bool keeps(std::uint32_t key, int id) const {
    if (!likely.keeps(key, id) || !begin.keeps(key, id)) {
      return false;
    }
    if (!typical) {
      return true;
    }
    const std::uint64_t own = distance(key);
    const std::uint64_t last = each_time(last_distance);
    return own < last || (own == last && last_typical.keeps(key, id));
  }
};

/// The largest key of what `filter` keeps.
__device__ inline std::uint32_t top_key(const TokenList& tokens, const Filter& filter, SampleShared& shared) {
  std::uint32_t best = 0;
#pragma unroll 1
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

/// The logits' scale and largest one among what the stages leave. It lies in shared memory too.
struct Left {
  double top;
  double scale;

  __device__ Mass mass(std::uint32_t key, const SampleShared& shared) const {
    EachTime<Left>& now = each_time(*this);
    return mass_at((logit_of(key) - now.top) * now.scale, shared);
  }
};

/// Changes what all threads have read, by one of them; `act` may use what every thread has computed together.
template <class Act>
__device__ inline void change(Act act) {
  if (thread_index() == 0) {
    act();
  }
  __syncthreads();
}

/// Sets the largest logit of what `filter` keeps.
__device__ inline void find_top(const TokenList& tokens, const Filter& filter, Left& left, SampleShared& shared) {
  const double top = logit_of(top_key(tokens, filter, shared));
  change([&] { left.top = top; });
}

/// The least logit that Mirostat 2 keeps.
__device__ inline double least_of_surprise(const TokenList& tokens, float bits, const Left& left, const Filter& filter,
                                           SampleShared& shared) {
  constexpr double log_of_2 = 0.6931471805599453;
  const Entropy found = measure_entropy(tokens, left.top, left.scale, filter, shared);
  const double least = (found.log_sum - static_cast<double>(bits) * log_of_2) / left.scale;
  return left.top + (least < 0.0 ? least : 0.0);
}

/// Writes the keys of the most likely tokens that are kept, at most zipf_tokens, to the histogram's memory, the largest
/// first. `cut` is that behind them. Returns their number.
__device__ inline int sort_likely(const TokenList& tokens, const Filter& filter, const Cut& cut, SampleShared& shared) {
  Mass* const found = shared.histogram + zipf_tokens;
  const auto last = static_cast<std::uint32_t>(cut.key);
  __syncthreads();
  change([&] { shared.digit = 0; });
#pragma unroll 1
  for (int i = thread_index(); i < tokens.count; i += sample_draw_threads) {
    const std::uint32_t key = tokens.key(i);
    if (key > last && filter.keeps(key, tokens.id(i))) {  // fewer than zipf_tokens are
      found[atomicAdd(&shared.digit, 1)] = key;
    }
  }
  __syncthreads();
  const int above = shared.digit;
  const int own = thread_index();
  if (own < above) {
    int place = 0;
#pragma unroll 1
    for (int other = 0; other < above; ++other) {
      place += found[other] > found[own] || (found[other] == found[own] && other < own) ? 1 : 0;
    }
    shared.histogram[place] = found[own];
  } else if (own < zipf_tokens) {
    shared.histogram[own] = last;
  }
  __syncthreads();
  const Mass count = static_cast<Mass>(above) + cut.mass_there;
  return count < zipf_tokens ? static_cast<int>(count) : zipf_tokens;
}

/// How many tokens Mirostat 1 keeps; `cut` is that behind the zipf_tokens most likely ones.
__device__ inline Mass zipf_count(const TokenList& tokens, const SampleRow& row, int vocab, const Left& left,
                                  const Filter& filter, const Cut& cut, SampleShared& shared) {
  constexpr double log_of_2 = 0.6931471805599453;
  const int count = sort_likely(tokens, filter, cut, shared);
  change([&] {
    double product = 0.0;
    double square = 0.0;
#pragma unroll 1
    for (int i = 1; i < count; ++i) {
      const double step = log(static_cast<double>(i + 1) / static_cast<double>(i));
      product += step * (logit_of(static_cast<std::uint32_t>(shared.histogram[i - 1])) -
                         logit_of(static_cast<std::uint32_t>(shared.histogram[i])));
      square += step * step;
    }
    const double exponent = product * left.scale / square;
    const double e = exponent - 1.0;
    const double log_vocab = log(static_cast<double>(vocab));
    const double below = e * log_vocab < 500.0 ? exponential(-e * log_vocab, shared) : 0.0;
    const double factor = fabs(e * log_vocab) < least_zipf ? 1.0 / log_vocab : e / (1.0 - below);
    const double kept = (log(factor) + static_cast<double>(row.most_surprise) * log_of_2) / exponent;
    shared.need = !(kept < log_vocab) ? static_cast<Mass>(vocab)  // also for NaN, of one token
                  : kept > 0.0        ? static_cast<Mass>(exponential(kept, shared))
                                      : 1;
  });
  return shared.need;
}

/// Whether the stage is done: with min_keep it may have to be done again by numbers of tokens.
__device__ inline bool leaves_enough(const TokenList& tokens, const SampleRow& row, const Filter& filter,
                                     SampleShared& shared) {
  return sum_of(tokens, filter, shared, [](std::uint32_t) { return 1.0; }) >= static_cast<double>(row.min_keep);
}

/// Applies the row's stages to the list, whose largest logit is `top`.
__device__ inline void apply_stages(const TokenList& tokens, const SampleRow& row, int vocab, Left& left, Filter& filter,
                                    Filter& saved, SampleShared& shared) {
  Mass need_there = 0;
  bool again = false;      // typical-p and zipf take two cuts
  bool by_number = false;  // the stage keeps min_keep tokens
#pragma unroll 1
  for (int s = 0; s < SampleRow::num_stages;) {  // a loop, so that there is one copy of the code
    const SampleStage stage = row.stages[s];
    if (!is_active(row, stage)) {
      ++s;
      continue;
    }
    const bool minds_number = row.min_keep > 1 && keeps_some(stage);
    if (minds_number && !again && !by_number) {
      change([&] { saved = filter; });
    }
    if (stage == SampleStage::temperature) {
      const double scale = scale_of_temperature(tokens, row, left.top, filter, shared);
      change([&] { left.scale = scale; });
    } else if (stage == SampleStage::min_p && !by_number) {
      const double least = left.top + log(static_cast<double>(row.min_p)) / left.scale;
      change([&] { filter.likely.raise(least); });
    } else if (stage == SampleStage::top_n_sigma) {
      const double least = least_of_sigma(tokens, row.top_n_sigma, left.top, filter, shared);
      change([&] { filter.likely.raise(least); });
    } else if (stage == SampleStage::surprise) {
      const double least = least_of_surprise(tokens, row.most_surprise, left, filter, shared);
      change([&] { filter.likely.raise(least); });
    } else if (stage == SampleStage::xtc) {
      const LikelyBegin begin = begin_of_xtc(tokens, row.xtc_threshold, left.top, left.scale, filter, shared);
      change([&] { filter.begin = begin; });
      find_top(tokens, filter, left, shared);
    } else {
      Aim aim;
      aim.top = left.top;
      aim.scale = left.scale;
      aim.counts = by_number || stage == SampleStage::top_k || stage == SampleStage::zipf;
      aim.one_distance = again && stage == SampleStage::typical_p;
      aim.by_distance = !again && stage == SampleStage::typical_p;
      aim.need = again                         ? need_there
                 : by_number                   ? static_cast<Mass>(row.min_keep)
                 : stage == SampleStage::top_k ? static_cast<Mass>(row.top_k)
                 : stage == SampleStage::zipf  ? static_cast<Mass>(zipf_tokens)
                                               : 0;
      aim.share = stage == SampleStage::top_p ? row.top_p : row.typical_p;
      if (aim.by_distance) {
        // Locally typical sampling (Meister and others 2022).
        const Entropy found = measure_entropy(tokens, left.top, left.scale, filter, shared);
        change([&] { filter.before = found; });
      }
      const Cut cut = cut_list(
          tokens.count, aim.by_distance ? 64 : 32, shared,
          [&](int i, std::uint64_t* order) { return aim.orders(filter, tokens.key(i), tokens.id(i), order); },
          [&](int i) { return aim.mass(tokens.key(i), shared); }, [&](Mass total) { return aim.target(total); });
      if (aim.by_distance) {
        change([&] { filter.last_distance = ~cut.key; });
        need_there = cut.need;
        again = true;
        continue;
      }
      if (stage == SampleStage::zipf && !again) {
        need_there = zipf_count(tokens, row, vocab, left, filter, cut, shared);
        again = true;
        continue;
      }
      again = false;
      const LikelyEnd end = likely_end(tokens, filter, aim, cut, shared);
      if (aim.one_distance) {
        change([&] {
          filter.last_typical = end;
          filter.typical = true;
        });
        find_top(tokens, filter, left, shared);
      } else {
        change([&] { filter.likely = end; });
      }
    }
    if (minds_number && !by_number && !leaves_enough(tokens, row, filter, shared)) {
      change([&] { filter = saved; });
      find_top(tokens, filter, left, shared);
      by_number = stage != SampleStage::xtc;
    } else {
      by_number = false;
    }
    s += by_number ? 0 : 1;
  }
}

/// The weights of adaptive-p: exp(adaptive_exponent()) over the largest one.
struct AdaptiveWeights {
  Mass all;             ///< of all tokens
  Mass target;          ///< of a token with the target's probability
  double share_of_one;  ///< 1 / all
  double nearest;       ///< exponent of the largest weight

  __device__ Mass distance(Mass mass) const {
    const Mass there = each_time(target);
    return mass > there ? mass - there : there - mass;
  }
  __device__ double exponent(Mass at_distance) const {
    return adaptive_exponent(static_cast<double>(at_distance) * each_time(share_of_one));
  }
};

/// By all threads; `weights` is in shared memory.
__device__ inline void measure_weights(const TokenList& tokens, float target, const Left& left, const Filter& filter,
                                       AdaptiveWeights& weights, SampleShared& shared) {
  const double all =
      sum_of(tokens, filter, shared, [&](std::uint32_t key) { return static_cast<double>(left.mass(key, shared)); });
  change([&] {
    weights.all = static_cast<Mass>(all);
    weights.target = static_cast<Mass>(static_cast<double>(target) * all);
    weights.share_of_one = 1.0 / all;
  });
  Mass nearest = 0;  // the complement of the least distance
#pragma unroll 1
  for (int i = thread_index(); i < tokens.count; i += sample_draw_threads) {
    const std::uint32_t key = tokens.key(i);
    if (key != 0 && filter.keeps(key, tokens.id(i))) {
      nearest = Max::combine(nearest, ~weights.distance(left.mass(key, shared)));
    }
  }
  nearest = block_reduce<Max>(nearest, shared.parts, Mass{0});
  change([&] { weights.nearest = weights.exponent(~nearest); });
}

/// Draws from what the stages leave: the place of the token in the list. `weights.all` becomes the mass of all that is left.
__device__ inline int draw_token(const TokenList& tokens, const SampleRow& row, const Left& left, const Filter& filter,
                                 AdaptiveWeights& weights, SampleShared& shared) {
  const bool adapts = row.target_probability >= 0.0f;
  if (adapts) {
    measure_weights(tokens, row.target_probability, left, filter, weights, shared);
  }
  return walk_list(
      tokens.count, shared,
      [&](int i) {
        const std::uint32_t key = tokens.key(i);
        if (key == 0 || !filter.keeps(key, tokens.id(i))) {
          return Mass{0};
        }
        const Mass mass = left.mass(key, shared);
        return adapts ? mass_at(weights.exponent(weights.distance(mass)) - weights.nearest, shared) : mass;
      },
      [&](Mass sum) {
        if (!adapts && thread_index() == 0) {
          weights.all = sum;
        }
        const Mass reached = static_cast<Mass>(row.uniform * static_cast<double>(sum));
        return reached < sum ? reached : sum - 1;
      });
}

}  // namespace rocmforge::gpu
