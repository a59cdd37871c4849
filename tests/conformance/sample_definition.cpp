#include "conformance/sample_definition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace rocmforge::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Entry {
  double logit;
  std::int32_t id;
  double probability = 0.0;
};
using Entries = std::vector<Entry>;

bool likelier(const Entry& a, const Entry& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

void normalise(Entries& list, double temperature) {
  double sum = 0.0;
  for (Entry& entry : list) {
    entry.probability = std::exp((entry.logit - list.front().logit) / temperature);
    sum += entry.probability;
  }
  for (Entry& entry : list) {
    entry.probability /= sum;
  }
}

void cut_at_mass(Entries& list, double mass) {
  double sum = 0.0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    sum += list[i].probability;
    if (sum >= mass) {
      list.resize(i + 1);
      return;
    }
  }
}

double entropy_of(const Entries& list) {
  double entropy = 0.0;
  for (const Entry& entry : list) {
    entropy -= entry.probability > 0.0 ? entry.probability * std::log(entry.probability) : 0.0;
  }
  return entropy;
}

void order_by_typicality(Entries& list, double temperature) {
  normalise(list, temperature);
  const double entropy = entropy_of(list);
  double sum = 0.0;
  for (const Entry& entry : list) {
    sum += std::exp((entry.logit - list.front().logit) / temperature);
  }
  const double top = list.front().logit;
  std::ranges::stable_sort(
      list, {}, [&](const Entry& entry) { return std::abs(std::log(sum) - (entry.logit - top) / temperature - entropy); });
}

void cut_typical(Entries& list, double mass, double temperature) {
  order_by_typicality(list, temperature);
  cut_at_mass(list, mass);
  std::ranges::sort(list, likelier);
}

void cut_sigma(Entries& list, double n) {
  double sum = 0.0;
  double squares = 0.0;
  for (const Entry& entry : list) {
    sum += entry.logit;
  }
  const auto count = static_cast<double>(list.size());
  for (const Entry& entry : list) {
    squares += std::pow(entry.logit - sum / count, 2.0);
  }
  const double least = list.front().logit - n * std::sqrt(squares / count);
  std::erase_if(list, [&](const Entry& entry) { return entry.logit < least; });
}

/// Mirostat 1; the formulas are in ops/sample_row.h.
void cut_zipf(Entries& list, double surprise, double temperature, double vocab) {
  double products = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i + 1 < std::min<std::size_t>(list.size(), 100); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += t * (list[i].logit - list[i + 1].logit) / temperature;
    squares += t * t;
  }
  if (squares == 0.0) {
    return;
  }
  const double s = products / squares;
  const double e = s - 1.0;
  const double share = std::abs(e) * std::log(vocab) < 1e-6 ? 1.0 / std::log(vocab) : e / (1.0 - std::pow(vocab, -e));
  const double kept = std::pow(share * std::pow(2.0, surprise), 1.0 / s);
  if (kept < static_cast<double>(list.size())) {
    list.resize(static_cast<std::size_t>(std::max(kept, 1.0)));
  }
}

void cut_surprise(Entries& list, double surprise) {
  const double best = list.front().probability;
  std::erase_if(list,
                [&](const Entry& entry) { return -std::log2(entry.probability) > surprise && entry.probability < best; });
}

double temperature_of(const Entries& list, const SampleRow& row) {
  if (!(row.temperature_range > 0.0f) || list.size() < 2) {
    return row.temperature;
  }
  const double low = std::max(0.0, double{row.temperature} - double{row.temperature_range});
  const double high = double{row.temperature} + double{row.temperature_range};
  const double share = std::min(1.0, entropy_of(list) / std::log(static_cast<double>(list.size())));
  return std::max(low + (high - low) * std::pow(share, double{row.temperature_exponent}), 1e-30);
}

/// What the stage leaves of a list that is sorted, likeliest first.
void cut(SampleStage stage, const SampleRow& row, Entries& list, double& temperature, std::int64_t vocab) {
  normalise(list, temperature);
  if (stage == SampleStage::top_n_sigma && row.top_n_sigma > 0.0f) {
    cut_sigma(list, row.top_n_sigma);
  } else if (stage == SampleStage::top_k && row.top_k > 0 && static_cast<std::size_t>(row.top_k) < list.size()) {
    list.resize(static_cast<std::size_t>(row.top_k));
  } else if (stage == SampleStage::typical_p && row.typical_p < 1.0f) {
    cut_typical(list, row.typical_p, temperature);
  } else if (stage == SampleStage::top_p && row.top_p < 1.0f) {
    cut_at_mass(list, row.top_p);
  } else if (stage == SampleStage::min_p) {
    const double best = list.front().probability;
    std::erase_if(list, [&](const Entry& entry) { return entry.probability / best < double{row.min_p}; });
  } else if (stage == SampleStage::xtc && row.xtc_threshold <= 0.5f) {
    const auto above =
        std::ranges::count_if(list, [&](const Entry& entry) { return entry.probability >= double{row.xtc_threshold}; });
    list.erase(list.begin(), list.begin() + std::max<std::ptrdiff_t>(above - 1, 0));
  } else if (stage == SampleStage::temperature) {
    temperature = temperature_of(list, row);
  } else if (stage == SampleStage::zipf) {
    cut_zipf(list, row.most_surprise, temperature, static_cast<double>(vocab));
  } else if (stage == SampleStage::surprise) {
    cut_surprise(list, row.most_surprise);
  }
}

/// With what min_keep asks for.
void apply(SampleStage stage, const SampleRow& row, Entries& list, double& temperature, std::int64_t vocab) {
  const Entries before = list;
  cut(stage, row, list, temperature, vocab);
  const std::size_t least = std::min(static_cast<std::size_t>(std::max(row.min_keep, 0)), before.size());
  if (!keeps_some(stage) || list.size() >= least) {
    return;
  }
  list = before;
  if (stage == SampleStage::typical_p) {
    order_by_typicality(list, temperature);
    list.resize(least);
    std::ranges::sort(list, likelier);
  } else if (stage != SampleStage::xtc) {
    list.resize(least);
  }
}

Entries survivors(const SampleProblem& problem, std::size_t r, double& temperature) {
  const SampleRow& row = problem.rows[r];
  Entries list;
  for (std::int32_t id = 0; const float logit : adjusted_logits(problem, r)) {
    if (!std::isnan(logit) && logit != -infinity) {
      list.push_back({std::min(double{logit}, double{std::numeric_limits<float>::max()}), id});
    }
    ++id;
  }
  std::ranges::sort(list, likelier);
  if (list.empty()) {
    return list;
  }
  if (!(row.temperature > 0.0f)) {
    list.resize(1);
    return list;
  }
  for (const SampleStage stage : row.stages) {
    apply(stage, row, list, temperature, problem.vocab);
  }
  return list;
}

}  // namespace

std::vector<float> adjusted_logits(const SampleProblem& problem, std::size_t r) {
  const SampleRow& row = problem.rows[r];
  std::vector<float> logits(problem.row_logits(r).begin(), problem.row_logits(r).end());
  for (std::int32_t a = row.first_adjustment; a < row.first_adjustment + row.num_adjustments; ++a) {
    const SampleAdjustment& adjustment = problem.adjustments[static_cast<std::size_t>(a)];
    float& logit = logits[static_cast<std::size_t>(adjustment.id)];
    logit += adjustment.bias;
    if (adjustment.count > 0) {
      double value = logit;
      value = value > 0.0 ? value / double{row.repeat_penalty} : value * double{row.repeat_penalty};
      value -= adjustment.count * double{row.frequency_penalty} + double{row.presence_penalty};
      logit = static_cast<float>(value);
    }
  }
  if (row.mask >= 0) {
    const std::uint32_t* mask = problem.masks.data() + row.mask * sample_mask_words(problem.vocab);
    for (std::size_t id = 0; id < logits.size(); ++id) {
      logits[id] = (mask[id / 32] >> id % 32 & 1u) != 0 ? logits[id] : -infinity;
    }
  }
  return logits;
}

ExpectedDraw expected_draw(const SampleProblem& problem, std::size_t r) {
  double temperature = 1.0;
  Entries list = survivors(problem, r, temperature);
  if (list.empty()) {
    return {};
  }
  const SampleRow& row = problem.rows[r];
  normalise(list, temperature);
  std::vector<double> weights(list.size());
  std::ranges::sort(list, {}, &Entry::id);
  std::ranges::transform(list, weights.begin(), [&row](const Entry& entry) {
    const double distance = std::abs(entry.probability - double{row.target_probability}) / 0.3;
    return row.target_probability < 0.0f ? entry.probability : std::exp(-10.0 * distance * distance / (1.0 + distance));
  });
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double walked = 0.0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    walked += weights[i] / sum;
    if (walked > row.uniform || i + 1 == list.size()) {
      return {list[i].id, list[i].probability};
    }
  }
  return {};
}

}  // namespace rocmforge::test
