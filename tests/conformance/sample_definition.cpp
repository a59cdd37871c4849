#include "conformance/sample_definition.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

void cut_typical(Entries& list, double mass, double temperature) {
  normalise(list, temperature);
  const double entropy = entropy_of(list);
  double sum = 0.0;
  for (const Entry& entry : list) {
    sum += std::exp((entry.logit - list.front().logit) / temperature);
  }
  const double top = list.front().logit;
  std::ranges::stable_sort(
      list, {}, [&](const Entry& entry) { return std::abs(std::log(sum) - (entry.logit - top) / temperature - entropy); });
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
void apply(SampleStage stage, const SampleRow& row, Entries& list, double& temperature) {
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
    apply(stage, row, list, temperature);
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

std::int32_t expected_token(const SampleProblem& problem, std::size_t r) {
  double temperature = 1.0;
  Entries list = survivors(problem, r, temperature);
  if (list.empty()) {
    return -1;
  }
  if (list.size() == 1) {
    return list.front().id;
  }
  const SampleRow& row = problem.rows[r];
  normalise(list, temperature);
  std::ranges::sort(list, {}, &Entry::id);
  double walked = 0.0;
  for (const Entry& entry : list) {
    walked += entry.probability;
    if (walked > row.uniform) {
      return entry.id;
    }
  }
  return list.back().id;
}

}  // namespace rocmforge::test
