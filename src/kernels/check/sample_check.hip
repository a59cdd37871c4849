// Sampling as plain as it can be written: a work-group takes a row, each thread a run of its ids. Nothing is sorted: a
// filter finds the bits of its cut one after another, each by a sum over the whole row in double. Formulas: ops/sample.h.

#include "kernels/check/check_code.h"
#include "kernels/check/sample_args.h"

namespace rocmforge::check_kernels {
namespace {

/// The tokens above `least` in an order, and of those equal to it the ones whose key is not below `least_key`.
struct Cut {
  std::uint64_t least = 0;
  std::uint64_t least_key = 0;

  [[nodiscard]] __device__ bool keeps(std::uint64_t order, std::uint64_t key) const {
    return order > least || (order == least && key >= least_key);
  }
};

class RowDraw {
 public:
  __device__ RowDraw(const float* logits, std::int64_t vocab, const SampleRow& row, double* numbers)
      : logits_(logits), row_(row), numbers_(numbers), vocab_(vocab) {
    const std::int64_t run = (vocab + sample_check_threads - 1) / sample_check_threads;
    begin_ = min(static_cast<std::int64_t>(threadIdx.x) * run, vocab);
    end_ = min(begin_ + run, vocab);
  }

  /// The token, the same in every thread; -1 where every one is forbidden.
  __device__ std::int32_t draw() {
    probability_ = 0.0;
    if (!(best() > -infinite)) {
      return -1;
    }
    if (!(row_.temperature > 0.0f)) {
      const double top = best();
      return first_id([&](std::int64_t id) { return logit(id) >= top; });
    }
#pragma unroll 1
    for (int s = 0; s < SampleRow::num_stages; ++s) {
      if (is_active(row_, row_.stages[s])) {
        keep_enough(row_.stages[s]);
      }
    }
    return draw_from_kept();
  }
  /// Of the token among those that the stages left.
  [[nodiscard]] __device__ double probability() const { return probability_; }

 private:
  static constexpr double log_of_2 = 0.6931471805599453;

  /// What the stages have left.
  struct Limits {
    double least_logit = -infinite;
    std::uint64_t least_key = 0;
    std::uint64_t most_key = ~std::uint64_t{0};
    Cut typical;
    bool is_typical = false;
  };

  [[nodiscard]] __device__ double logit(std::int64_t id) const {
    const float x = logits_[id];
    return x == x ? static_cast<double>(fminf(x, 3.402823466e38f)) : -infinite;
  }
  /// Larger for a more likely token; of equal logits for the lower id.
  [[nodiscard]] __device__ std::uint64_t key(std::int64_t id) const {
    const auto bits = __builtin_bit_cast(std::uint32_t, static_cast<float>(logit(id)) + 0.0f);
    const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return std::uint64_t{ordered} << 32 | ~static_cast<std::uint32_t>(id);
  }
  /// Larger for a token whose surprise is closer to the entropy.
  [[nodiscard]] __device__ std::uint64_t typicality(std::int64_t id) const {
    return ~__builtin_bit_cast(std::uint64_t, fabs(log_total_ - (logit(id) - typical_top_) * typical_scale_ - entropy_));
  }
  [[nodiscard]] __device__ bool kept(std::int64_t id) const {
    return logit(id) > -infinite && logit(id) >= limits_.least_logit && key(id) >= limits_.least_key &&
           key(id) <= limits_.most_key && (!limits_.is_typical || limits_.typical.keeps(typicality(id), key(id)));
  }

  /// All threads' numbers, combined in their order.
  template <class Combine>
  __device__ double fold(double own, const Combine& combine) {
    numbers_[threadIdx.x] = own;
    __syncthreads();
    double all = numbers_[0];
    for (int thread = 1; thread < sample_check_threads; ++thread) {
      all = combine(all, numbers_[thread]);
    }
    __syncthreads();
    return all;
  }
  template <class Value>
  __device__ double sum(const Value& value) {
    double own = 0.0;
    for (std::int64_t id = begin_; id < end_; ++id) {
      own += kept(id) ? value(id) : 0.0;
    }
    return fold(own, [](double a, double b) { return a + b; });
  }
  /// The largest logit that is kept.
  __device__ double best() {
    double own = -infinite;
    for (std::int64_t id = begin_; id < end_; ++id) {
      own = kept(id) ? fmax(own, logit(id)) : own;
    }
    return fold(own, [](double a, double b) { return fmax(a, b); });
  }
  /// The lowest id for which is_wanted(id); -1 for none.
  template <class Wanted>
  __device__ std::int32_t first_id(const Wanted& is_wanted) {
    double own = infinite;
    for (std::int64_t id = begin_; id < end_ && own == infinite; ++id) {
      own = is_wanted(id) ? static_cast<double>(id) : own;
    }
    const double first = fold(own, [](double a, double b) { return fmin(a, b); });
    return first < infinite ? static_cast<std::int32_t>(first) : -1;
  }

  /// The largest number so that what is kept with order(id) not below it reaches `target` in sum; 0 where all do not.
  template <class Order, class Measure>
  __device__ std::uint64_t cut(double target, const Order& order, const Measure& measure) {
    std::uint64_t least = 0;
    for (int bit = 63; bit >= 0; --bit) {
      const std::uint64_t trial = least | std::uint64_t{1} << bit;
      const double reached = sum([&](std::int64_t id) { return order(id) >= trial ? measure(id) : 0.0; });
      least = reached >= target ? trial : least;
    }
    return least;
  }
  /// One token remains even of no mass.
  [[nodiscard]] __device__ double mass_of(float share) const { return fmax(static_cast<double>(share), 1e-300); }

  /// exp(logit) over the largest one's, at the row's temperature where that stage is past.
  [[nodiscard]] __device__ double weight(std::int64_t id, double top) const { return exp((logit(id) - top) * scale_); }

  /// A stage that leaves less than min_keep tokens is done again so that it leaves as many.
  __device__ void keep_enough(SampleStage stage) {
    const Limits before = limits_;
    const double most = fmin(static_cast<double>(row_.min_keep), sum([](std::int64_t) { return 1.0; }));
    apply(stage);
    if (!keeps_some(stage) || sum([](std::int64_t) { return 1.0; }) >= most) {
      return;
    }
    limits_ = before;
    const auto one = [](std::int64_t) { return 1.0; };
    if (stage == SampleStage::typical_p) {
      const double top = best();
      keep_typical(top, sum([&](std::int64_t id) { return weight(id, top); }), most, one);
    } else if (stage != SampleStage::xtc) {
      limits_.least_key = max(limits_.least_key, cut(
                                                     most, [&](std::int64_t id) { return key(id); }, one));
    }
  }
  __device__ void apply(SampleStage stage) {
    const double top = best();
    const double total = sum([&](std::int64_t id) { return weight(id, top); });
    const auto share = [&](std::int64_t id) { return weight(id, top) / total; };
    const auto likelihood = [&](std::int64_t id) { return key(id); };
    switch (stage) {
      case SampleStage::none:
        break;
      case SampleStage::top_n_sigma:
        keep_sigma(top);
        break;
      case SampleStage::top_k:
        limits_.least_key = max(limits_.least_key, cut(row_.top_k, likelihood, [](std::int64_t) { return 1.0; }));
        break;
      case SampleStage::typical_p:
        keep_typical(top, total, mass_of(row_.typical_p), share);
        break;
      case SampleStage::top_p:
        limits_.least_key = max(limits_.least_key, cut(mass_of(row_.top_p), likelihood, share));
        break;
      case SampleStage::min_p:
        limits_.least_logit = fmax(limits_.least_logit, top + log(static_cast<double>(row_.min_p)) / scale_);
        break;
      case SampleStage::xtc: {
        const double last = lowest([&](std::int64_t id) { return share(id) >= static_cast<double>(row_.xtc_threshold); });
        limits_.most_key = last < infinite ? lowest_key(last) : limits_.most_key;
        break;
      }
      case SampleStage::temperature:
        scale_ = 1.0 / fmax(temperature(top, total), least_temperature);
        break;
      case SampleStage::zipf:
        keep_zipf();
        break;
      case SampleStage::surprise:
        limits_.least_logit = fmax(
            limits_.least_logit, top + fmin(log(total) - static_cast<double>(row_.most_surprise) * log_of_2, 0.0) / scale_);
        break;
    }
  }
  /// The least logit that is kept and for which is_wanted(id); infinite for none.
  template <class Wanted>
  __device__ double lowest(const Wanted& is_wanted) {
    double own = infinite;
    for (std::int64_t id = begin_; id < end_; ++id) {
      own = kept(id) && is_wanted(id) ? fmin(own, logit(id)) : own;
    }
    return fold(own, [](double a, double b) { return fmin(a, b); });
  }
  /// The key of the last id that is kept with this logit.
  __device__ std::uint64_t lowest_key(double wanted) {
    double own = -1.0;
    for (std::int64_t id = begin_; id < end_; ++id) {
      own = kept(id) && logit(id) == wanted ? static_cast<double>(id) : own;
    }
    return key(static_cast<std::int64_t>(fold(own, [](double a, double b) { return fmax(a, b); })));
  }
  __device__ void keep_sigma(double top) {
    const double count = sum([](std::int64_t) { return 1.0; });
    const double mean = sum([&](std::int64_t id) { return logit(id); }) / count;
    const double variance = sum([&](std::int64_t id) { return (logit(id) - mean) * (logit(id) - mean); }) / count;
    limits_.least_logit = fmax(limits_.least_logit, top - static_cast<double>(row_.top_n_sigma) * sqrt(variance));
  }
  __device__ double temperature(double top, double total) {
    const double count = sum([](std::int64_t) { return 1.0; });
    if (!(row_.temperature_range > 0.0f) || count < 2.0) {
      return static_cast<double>(row_.temperature);
    }
    const double entropy =
        sum([&](std::int64_t id) { return weight(id, top) / total * (log(total) - (logit(id) - top) * scale_); });
    const double most = log(count);
    return dynamic_temperature(row_,
                               pow(fmin(fmax(entropy / most, 0.0), 1.0), static_cast<double>(row_.temperature_exponent)));
  }
  /// The formulas are in ops/sample_row.h. Of equal logits only the last one differs from the token behind it.
  __device__ void keep_zipf() {
    const auto one = [](std::int64_t) { return 1.0; };
    const double count = fmin(sum(one), static_cast<double>(zipf_tokens));
    double squares = 0.0;
    for (double i = 1.0; i < count; i += 1.0) {
      squares += log((i + 1.0) / i) * log((i + 1.0) / i);
    }
    double products = 0.0;
    double value = best();
    double place = sum([&](std::int64_t id) { return logit(id) == value ? 1.0 : 0.0; });
    while (place < count) {
      const double next = highest_below(value);
      products += log((place + 1.0) / place) * (value - next) * scale_;
      place += sum([&](std::int64_t id) { return logit(id) == next ? 1.0 : 0.0; });
      value = next;
    }
    const double exponent = products / squares;
    const double e = exponent - 1.0;
    const double log_vocab = log(static_cast<double>(vocab_));
    const double factor = fabs(e * log_vocab) < least_zipf ? 1.0 / log_vocab : e / (1.0 - exp(-e * log_vocab));
    const double kept = (log(factor) + static_cast<double>(row_.most_surprise) * log_of_2) / exponent;
    if (kept < log_vocab) {
      const double number = floor(fmax(exp(kept), 1.0));
      limits_.least_key = max(limits_.least_key, cut(
                                                     number, [&](std::int64_t id) { return key(id); }, one));
    }
  }
  __device__ double highest_below(double bound) {
    double own = -infinite;
    for (std::int64_t id = begin_; id < end_; ++id) {
      own = kept(id) && logit(id) < bound ? fmax(own, logit(id)) : own;
    }
    return fold(own, [](double a, double b) { return fmax(a, b); });
  }
  /// What comes first in the order of typicality until its `measure` reaches `target`.
  template <class Measure>
  __device__ void keep_typical(double top, double total, double target, const Measure& measure) {
    const auto share = [&](std::int64_t id) { return weight(id, top) / total; };
    typical_top_ = top;
    typical_scale_ = scale_;
    log_total_ = log(total);
    entropy_ = sum([&](std::int64_t id) { return share(id) * (log_total_ - (logit(id) - top) * scale_); });
    Cut found;
    found.least = cut(
        target, [&](std::int64_t id) { return typicality(id); }, measure);
    found.least_key = cut(
        target,
        [&](std::int64_t id) {
          const std::uint64_t own = typicality(id);
          return own > found.least ? ~std::uint64_t{0} : own == found.least ? key(id) : 0;
        },
        measure);
    limits_.typical = found;
    limits_.is_typical = true;
  }
  /// The first id in whose run the walk over the probabilities passes `uniform`.
  __device__ std::int32_t draw_from_kept() {
    const double top = best();
    const double target = static_cast<double>(row_.target_probability);
    const double all = sum([&](std::int64_t id) { return weight(id, top); });
    const auto exponent = [&](std::int64_t id) { return adaptive_exponent(fabs(weight(id, top) / all - target)); };
    double nearest = -infinite;
    for (std::int64_t id = begin_; id < end_; ++id) {
      nearest = kept(id) ? fmax(nearest, exponent(id)) : nearest;
    }
    nearest = fold(nearest, [](double a, double b) { return fmax(a, b); });
    const auto chance = [&](std::int64_t id) {
      return !kept(id) ? 0.0 : target < 0.0 ? weight(id, top) : exp(exponent(id) - nearest);
    };
    double own = 0.0;
    double last = -1.0;
    for (std::int64_t id = begin_; id < end_; ++id) {
      own += chance(id);
      last = chance(id) > 0.0 ? static_cast<double>(id) : last;
    }
    const double total = fold(own, [](double a, double b) { return a + b; });
    double walked = 0.0;
    numbers_[threadIdx.x] = own;
    __syncthreads();
    for (int thread = 0; thread < static_cast<int>(threadIdx.x); ++thread) {
      walked += numbers_[thread];
    }
    __syncthreads();
    const std::int32_t first = first_id([&](std::int64_t id) {
      walked += chance(id);
      return chance(id) > 0.0 && walked > row_.uniform * total;
    });
    // By rounding the walk may end below its target.
    const double end = fold(last, [](double a, double b) { return fmax(a, b); });
    const std::int32_t token = first >= 0 ? first : static_cast<std::int32_t>(end);
    probability_ = weight(token, top) / all;
    return token;
  }

  const float* logits_;
  const SampleRow& row_;
  double* numbers_;  ///< [threads]
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
  std::int64_t vocab_;
  double scale_ = 1.0;  ///< of logits: 1 / temperature
  Limits limits_;
  double probability_ = 0.0;
  double log_total_ = 0.0;
  double entropy_ = 0.0;
  double typical_top_ = 0.0;
  double typical_scale_ = 1.0;
};

/// The changes of a row's logits, in place.
__device__ void adjust(const SampleCheckArgs& args, const SampleRow& row, float* logits) {
  for (std::int32_t i = 0; threadIdx.x == 0 && i < row.num_adjustments; ++i) {
    const SampleAdjustment& adjustment = args.adjustments[row.first_adjustment + i];
    logits[adjustment.id] = adjusted(logits[adjustment.id], row, adjustment);
  }
  __syncthreads();
  for (std::int64_t id = threadIdx.x; row.mask >= 0 && id < args.vocab; id += sample_check_threads) {
    if (!mask_allows(args.masks + row.mask * sample_mask_words(args.vocab), id)) {
      logits[id] = -__builtin_huge_valf();
    }
  }
  __syncthreads();
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_sample(SampleCheckArgs args) {
  for (std::int64_t r = blockIdx.x; r < args.num_rows; r += gridDim.x) {
    const SampleRow& row = args.rows[r];
    float* const logits = args.logits + r * args.vocab;
    adjust(args, row, logits);
    RowDraw draw(logits, args.vocab, row, reinterpret_cast<double*>(args.scratch + r));
    const std::int32_t token = draw.draw();
    if (threadIdx.x == 0) {
      args.out[r] = token;
      if (args.probabilities != nullptr && tells_probability(row)) {
        args.probabilities[r] = static_cast<float>(draw.probability());
      }
    }
  }
}

}  // namespace rocmforge::check_kernels
