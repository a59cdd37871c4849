#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "kernels/check/arguments/arguments.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/sample/kernels.h"

namespace rocmforge {
namespace {

constexpr float forbidden = -std::numeric_limits<float>::infinity();
constexpr float largest = std::numeric_limits<float>::max();

/// A logit as the filters see it: finite or forbidden.
float clean(float logit) { return logit == logit ? std::min(logit, largest) : forbidden; }

struct Candidate {
  std::int32_t id;
  float logit;
  double probability;  ///< among the candidates left
};

// A total order, so that results do not depend on how a standard library sorts.
constexpr auto more_likely = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

/// The largest of `logits`, before clean(); -inf when all are NaN. Independent lanes, so that the compiler vectorises them.
float largest_of(std::span<const float> logits) {
  std::array<float, 16> lanes;
  lanes.fill(forbidden);
  std::size_t i = 0;
  for (; i + lanes.size() <= logits.size(); i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
    }
  }
  for (; i < logits.size(); ++i) {
    lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  }
  return *std::ranges::max_element(lanes);
}

void forbid(float* logits, std::int64_t vocab, const std::uint32_t* mask) {
  for (std::int64_t word = 0; word < sample_mask_words(vocab); ++word) {
    const std::int64_t end = std::min(32 * word + 32, vocab);
    if (mask[word] == 0) {
      std::fill(logits + 32 * word, logits + end, forbidden);
      continue;
    }
    for (std::int64_t token = 32 * word; token < end; ++token) {
      logits[token] = mask_allows(mask, token) ? logits[token] : forbidden;
    }
  }
}

/// Whether a row has no stage but min_p and temperature, in that order.
bool is_plain(const SampleRow& row) {
  bool hot = false;
  for (const SampleStage stage : row.stages) {
    const bool is_last = stage == SampleStage::temperature;
    if (is_active(row, stage) && !is_last && (hot || stage != SampleStage::min_p)) {
      return false;
    }
    hot = hot || is_last;
  }
  return hot && !(row.temperature_range > 0.0f) && row.min_keep <= 1 && !(row.target_probability >= 0.0f);
}

/// A token, -1 for none, and its probability among those that the stages have left.
struct DrawnToken {
  std::int32_t id = -1;
  double probability = 0.0;
};

/// Draws from rows of one vocabulary, one after another. Keeps its memory from row to row.
class RowSampler {
 public:
  DrawnToken draw(std::span<const float> logits, const SampleRow& row);

 private:
  [[nodiscard]] std::int32_t greedy() const;
  [[nodiscard]] std::int32_t draw_from_all() const;
  void collect(std::int32_t most);
  void apply(SampleStage stage);
  void keep_enough(SampleStage stage);
  [[nodiscard]] double best() const { return std::ranges::min(candidates_, more_likely).logit; }
  double normalise();
  template <class Before>
  void keep_mass(double mass, Before before);
  void keep_likely(std::size_t count);
  template <class Surprise>
  [[nodiscard]] double entropy_of(Surprise surprise) const;
  void keep_typical(double mass);
  void keep_sigma();
  void keep_min();
  void exclude_top();
  void keep_zipf();
  void keep_surprise();
  [[nodiscard]] double scale_of_temperature();
  void order_by_id();
  [[nodiscard]] DrawnToken draw_from_candidates();

  std::span<const float> logits_;
  SampleRow row_;
  double scale_ = 1.0;  ///< 1 / temperature, behind that stage
  std::vector<Candidate> candidates_;
  std::vector<Candidate> before_;    ///< the candidates of keep_enough()
  std::vector<std::uint64_t> kept_;  ///< one bit for each token
};

DrawnToken RowSampler::draw(std::span<const float> logits, const SampleRow& row) {
  logits_ = logits;
  row_ = row;
  if (!(row.temperature > 0.0f)) {
    return {greedy()};
  }
  if (is_plain(row)) {
    return {draw_from_all()};
  }
  const bool begins_with_top_k = first_active(row) == SampleStage::top_k;
  collect(begins_with_top_k ? row.top_k : 0);
  if (candidates_.empty()) {
    return {};
  }
  scale_ = 1.0;
  for (const SampleStage stage : row.stages) {
    if (is_active(row, stage)) {
      row.min_keep > 1 && keeps_some(stage) ? keep_enough(stage) : apply(stage);
    }
  }
  order_by_id();
  return draw_from_candidates();
}

// A stage that leaves less than min_keep tokens is done again so that it leaves as many.
void RowSampler::keep_enough(SampleStage stage) {
  const auto least = static_cast<std::size_t>(row_.min_keep);
  before_ = candidates_;
  apply(stage);
  if (candidates_.size() >= std::min(least, before_.size())) {
    return;
  }
  candidates_.swap(before_);
  if (stage == SampleStage::typical_p) {
    keep_typical(0.0);
  } else if (stage != SampleStage::xtc) {
    keep_likely(least);
  }
}

void RowSampler::apply(SampleStage stage) {
  switch (stage) {
    case SampleStage::none:
      break;
    case SampleStage::top_n_sigma:
      keep_sigma();
      break;
    case SampleStage::top_k:
      keep_likely(static_cast<std::size_t>(row_.top_k));
      break;
    case SampleStage::typical_p:
      keep_typical(row_.typical_p);
      break;
    case SampleStage::top_p:
      normalise();
      keep_mass(row_.top_p, more_likely);
      break;
    case SampleStage::min_p:
      keep_min();
      break;
    case SampleStage::xtc:
      exclude_top();
      break;
    case SampleStage::temperature:
      scale_ = scale_of_temperature();
      break;
    case SampleStage::zipf:
      keep_zipf();
      break;
    case SampleStage::surprise:
      keep_surprise();
      break;
  }
}

std::int32_t RowSampler::greedy() const {
  const float top = std::min(largest_of(logits_), largest);
  if (top == forbidden) {
    return -1;
  }
  const auto first = std::ranges::find_if(logits_, [top](float logit) { return logit >= top; });
  return static_cast<std::int32_t>(first - logits_.begin());
}

// No filter needs an order: two passes over the logits and no list.
std::int32_t RowSampler::draw_from_all() const {
  const float top = std::min(largest_of(logits_), largest);
  if (top == forbidden) {
    return -1;
  }
  const auto weight = [&](float logit) {
    const double distance = double{clean(logit)} - double{top};
    return row_.min_p > 0.0f && std::exp(distance) < double{row_.min_p} ? 0.0
                                                                        : std::exp(distance / double{row_.temperature});
  };
  double sum = 0.0;
  for (const float logit : logits_) {
    sum += weight(logit);
  }
  double walked = 0.0;
  std::int32_t last = -1;
  for (std::size_t id = 0; id < logits_.size(); ++id) {
    if (const double w = weight(logits_[id]); w > 0.0) {
      walked += w;
      last = static_cast<std::int32_t>(id);
      if (walked > row_.uniform * sum) {
        return last;
      }
    }
  }
  return last;  // the running sum ended below its target by rounding
}

void RowSampler::keep_likely(std::size_t count) {
  if (candidates_.size() > count) {
    const auto kth = candidates_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(candidates_.begin(), kth, candidates_.end(), more_likely);
    candidates_.resize(count);
  }
}

// All tokens that may be drawn, or with `most` > 0 that many of the most likely ones, in the order of their ids where
// nothing was cut. The buffer is cut back whenever it is full, and `bar` rises to the least logit that is left in it. The
// time is linear, and for a peaked distribution hardly more than reading the logits.
void RowSampler::collect(std::int32_t most) {
  candidates_.clear();
  const std::size_t count = most > 0 ? static_cast<std::size_t>(most) : logits_.size();
  const std::size_t capacity = std::max<std::size_t>(2 * count, 256);
  float bar = forbidden;
  for (std::size_t id = 0; id < logits_.size(); ++id) {
    if (!(logits_[id] > bar)) {
      continue;  // an equal logit with a higher id comes later in the order
    }
    candidates_.push_back({static_cast<std::int32_t>(id), clean(logits_[id]), 0.0});
    if (candidates_.size() == capacity) {
      keep_likely(count);
      bar = candidates_[count - 1].logit;
    }
  }
  keep_likely(count);
}

// Returns log(sum(exp(logit))) - max(logit), both at the scale.
double RowSampler::normalise() {
  const double top = best();
  double sum = 0.0;
  for (Candidate& candidate : candidates_) {
    candidate.probability = std::exp((candidate.logit - top) * scale_);
    sum += candidate.probability;
  }
  for (Candidate& candidate : candidates_) {
    candidate.probability /= sum;
  }
  return std::log(sum);
}

// Keeps the shortest start of the order `before` whose probabilities reach `mass`. Sorts no further than needed.
template <class Before>
void RowSampler::keep_mass(double mass, Before before) {
  double sum = 0.0;
  std::size_t sorted = 0;
  for (std::size_t kept = 0; kept < candidates_.size(); ++kept) {
    if (kept == sorted) {
      sorted = std::min(candidates_.size(), std::max<std::size_t>(64, 4 * sorted));
      const auto first = candidates_.begin() + static_cast<std::ptrdiff_t>(kept);
      const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      if (last != candidates_.end()) {
        std::nth_element(first, last, candidates_.end(), before);
      }
      std::sort(first, last, before);
    }
    sum += candidates_[kept].probability;
    if (sum >= mass) {
      candidates_.resize(kept + 1);
      return;
    }
  }
}

// Locally typical sampling (Meister and others 2022): closest to the entropy first. A mass of 0 stands for min_keep tokens.
void RowSampler::keep_typical(double mass) {
  const double log_sum = normalise();
  const double top = best();
  const auto surprise = [&](const Candidate& candidate) { return log_sum - (candidate.logit - top) * scale_; };
  const double entropy = entropy_of(surprise);
  const auto closer = [&](const Candidate& a, const Candidate& b) {
    const double distance_a = std::abs(surprise(a) - entropy);
    const double distance_b = std::abs(surprise(b) - entropy);
    return distance_a != distance_b ? distance_a < distance_b : more_likely(a, b);
  };
  if (mass > 0.0) {
    keep_mass(mass, closer);
    return;
  }
  const auto count = static_cast<std::size_t>(row_.min_keep);
  if (candidates_.size() > count) {
    std::ranges::nth_element(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(count), closer);
    candidates_.resize(count);
  }
}

template <class Surprise>
double RowSampler::entropy_of(Surprise surprise) const {
  double entropy = 0.0;
  for (const Candidate& candidate : candidates_) {
    entropy += candidate.probability * surprise(candidate);
  }
  return entropy;
}

// Tang and others 2024.
void RowSampler::keep_sigma() {
  const auto count = static_cast<double>(candidates_.size());
  double sum = 0.0;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.logit;
  }
  double squares = 0.0;
  for (const Candidate& candidate : candidates_) {
    squares += (candidate.logit - sum / count) * (candidate.logit - sum / count);
  }
  const double least = best() - double{row_.top_n_sigma} * std::sqrt(squares / count);
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.logit < least; });
}

void RowSampler::keep_min() {
  const double top = best();
  std::erase_if(candidates_,
                [&](const Candidate& candidate) { return std::exp((candidate.logit - top) * scale_) < row_.min_p; });
}

void RowSampler::exclude_top() {
  normalise();
  const auto is_top = [&](const Candidate& candidate) { return candidate.probability >= row_.xtc_threshold; };
  const Candidate* last = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (is_top(candidate) && (last == nullptr || more_likely(*last, candidate))) {
      last = &candidate;
    }
  }
  if (last != nullptr) {
    std::erase_if(candidates_, [&, kept = *last](const Candidate& candidate) { return more_likely(candidate, kept); });
  }
}

void RowSampler::keep_zipf() {
  const std::size_t count = std::min<std::size_t>(zipf_tokens, candidates_.size());
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(candidates_.begin(), end, candidates_.end(), more_likely);
  double products = 0.0;
  double squares = 0.0;
  for (std::size_t i = 1; i < count; ++i) {
    const double step = std::log(static_cast<double>(i + 1) / static_cast<double>(i));
    products += step * (double{candidates_[i - 1].logit} - double{candidates_[i].logit}) * scale_;
    squares += step * step;
  }
  const double exponent = products / squares;
  const double e = exponent - 1.0;
  const double log_vocab = std::log(static_cast<double>(logits_.size()));
  const double factor = std::abs(e * log_vocab) < least_zipf ? 1.0 / log_vocab : e / (1.0 - std::exp(-e * log_vocab));
  const double log_kept = (std::log(factor) + double{row_.most_surprise} * std::numbers::ln2) / exponent;
  if (log_kept < log_vocab) {  // false for NaN, of one token
    keep_likely(static_cast<std::size_t>(std::max(std::exp(log_kept), 1.0)));
  }
}

void RowSampler::keep_surprise() {
  const double log_sum = normalise();
  const double top = best();
  const double least = std::min(log_sum - double{row_.most_surprise} * std::numbers::ln2, 0.0);
  std::erase_if(candidates_, [&](const Candidate& candidate) { return (candidate.logit - top) * scale_ < least; });
}

double RowSampler::scale_of_temperature() {
  double temperature = row_.temperature;
  if (row_.temperature_range > 0.0f && candidates_.size() > 1) {
    const double log_sum = normalise();
    const double top = best();
    const double entropy =
        entropy_of([&](const Candidate& candidate) { return log_sum - (candidate.logit - top) * scale_; });
    const double share = entropy / std::log(static_cast<double>(candidates_.size()));
    temperature = dynamic_temperature(row_, std::pow(std::clamp(share, 0.0, 1.0), double{row_.temperature_exponent}));
  }
  return 1.0 / std::max(temperature, least_temperature);
}

// Sorts by id through a bit for each token, in time linear in the vocabulary.
void RowSampler::order_by_id() {
  kept_.assign((logits_.size() + 63) / 64, 0);
  for (const Candidate& candidate : candidates_) {
    const auto id = static_cast<std::size_t>(candidate.id);
    kept_[id / 64] |= std::uint64_t{1} << (id % 64);
  }
  candidates_.clear();
  for (std::size_t word = 0; word < kept_.size(); ++word) {
    for (std::uint64_t bits = kept_[word]; bits != 0; bits &= bits - 1) {
      const std::size_t id = 64 * word + static_cast<std::size_t>(std::countr_zero(bits));
      candidates_.push_back({static_cast<std::int32_t>(id), clean(logits_[id]), 0.0});
    }
  }
}

DrawnToken RowSampler::draw_from_candidates() {
  const double top = best();
  double total = 0.0;
  for (Candidate& candidate : candidates_) {
    candidate.probability = std::exp((candidate.logit - top) * scale_);
    total += candidate.probability;
  }
  const auto exponent = [&](const Candidate& candidate) {
    return adaptive_exponent(std::abs(candidate.probability / total - double{row_.target_probability}));
  };
  const bool adapts = row_.target_probability >= 0.0f;
  double nearest = -std::numeric_limits<double>::infinity();
  const auto weight = [&](const Candidate& candidate) {
    return adapts ? std::exp(exponent(candidate) - nearest) : candidate.probability;
  };
  double sum = total;
  if (adapts) {
    sum = 0.0;
    std::ranges::for_each(candidates_,
                          [&](const Candidate& candidate) { nearest = std::max(nearest, exponent(candidate)); });
    std::ranges::for_each(candidates_, [&](const Candidate& candidate) { sum += weight(candidate); });
  }
  double walked = 0.0;
  DrawnToken last;
  for (const Candidate& candidate : candidates_) {
    if (const double w = weight(candidate); w > 0.0) {
      walked += w;
      last = {candidate.id, candidate.probability / total};
      if (walked > row_.uniform * sum) {
        return last;
      }
    }
  }
  return last;  // as in draw_from_all
}

class ReferenceSample final : public ReferenceKernel<OpKernel<SampleTokens>> {
 public:
  [[nodiscard]] Support supports(const SampleTokens::Spec& spec, const DeviceInfo&) const override {
    return check_spec(spec);
  }

  void run(const SampleTokens::Spec& spec, const SampleTokens::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    const std::int64_t grain = std::max<std::int64_t>(1, 32768 / spec.vocab);  // waking threads for less costs more
    for_each_range(context, args.num_rows, grain, [&](std::int64_t begin, std::int64_t end) {
      RowSampler sampler;
      for (std::int64_t r = begin; r < end; ++r) {
        const SampleRow& row = args.rows[r];
        float* logits = args.logits + r * spec.vocab;
        for (std::int32_t i = 0; i < row.num_adjustments; ++i) {
          const SampleAdjustment& adjustment = args.adjustments[row.first_adjustment + i];
          logits[adjustment.id] = adjusted(logits[adjustment.id], row, adjustment);
        }
        if (row.mask >= 0) {
          forbid(logits, spec.vocab, args.masks + row.mask * sample_mask_words(spec.vocab));
        }
        const DrawnToken drawn = sampler.draw({logits, static_cast<std::size_t>(spec.vocab)}, row);
        args.out[r] = drawn.id;
        if (args.probabilities != nullptr && tells_probability(row)) {
          args.probabilities[r] = static_cast<float>(drawn.probability);
        }
      }
    });
  }
};

}  // namespace

std::unique_ptr<OpKernel<SampleTokens>> make_reference_sample() { return std::make_unique<ReferenceSample>(); }

}  // namespace rocmforge
