#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "kernels/register_all.h"

namespace rocmforge {

namespace {

constexpr float forbidden = -std::numeric_limits<float>::infinity();

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

struct Sampler::HostKernel {
  KernelRegistry registry;
  DeviceInfo device = cpu_device_info();
  std::vector<float> logits;
  std::vector<SampleTokens::Adjustment> adjustments;

  HostKernel() { register_all_kernels(registry); }
};

Sampler::Sampler(const SamplingParams& params, Context context)
    : params_(params.only_named()),
      seed_(params.seed ? *params.seed : random_seed()),
      random_(seed_),
      context_(std::move(context)),
      most_surprise_(2.0 * double{params.mirostat_tau}),
      adaptive_sum_(double{params.adaptive_target} / (1.0 - double{params.adaptive_decay})),
      adaptive_weight_(1.0 / (1.0 - double{params.adaptive_decay})) {
  if (params_.has_dry()) {
    dry_.emplace(params_, context_.tokenizer);
  }
}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&& other) noexcept = default;
Sampler& Sampler::operator=(Sampler&& other) noexcept = default;

SampleTokens::Row Sampler::next(std::span<const std::int32_t> history, std::vector<SampleTokens::Adjustment>& adjustments,
                                std::size_t ahead) {
  SampleTokens::Row row;
  row.temperature = params_.temperature;
  row.top_p = params_.top_p;
  row.min_p = params_.min_p;
  row.typical_p = params_.typical_p;
  row.repeat_penalty = params_.repeat_penalty;
  row.frequency_penalty = params_.frequency_penalty;
  row.presence_penalty = params_.presence_penalty;
  row.top_k = params_.top_k;
  row.top_n_sigma = params_.top_n_sigma;
  row.temperature_range = params_.dynatemp_range;
  row.temperature_exponent = params_.dynatemp_exponent;
  row.min_keep = params_.min_keep;
  set_stages(row);
  row.first_adjustment = static_cast<std::int32_t>(adjustments.size());
  count(history);
  gather(history, draws_ + static_cast<std::int64_t>(ahead));
  // Merges two ascending lists, so that each token appears once.
  auto named = named_.begin();
  for (auto token = window_.begin(); token != window_.end() || named != named_.end();) {
    SampleTokens::Adjustment adjustment;
    if (token == window_.end() || (named != named_.end() && named->id <= *token)) {
      adjustment = *named++;
    } else {
      adjustment.id = *token;
    }
    for (; token != window_.end() && *token == adjustment.id; ++token) {
      ++adjustment.count;
    }
    adjustments.push_back(adjustment);
  }
  row.num_adjustments = static_cast<std::int32_t>(adjustments.size()) - row.first_adjustment;
  if (params_.temperature > 0.0f) {
    const Chance& chance_of_row = chance(ahead);
    if (chance_of_row.excludes) {
      row.xtc_threshold = params_.xtc_threshold;
    }
    row.uniform = chance_of_row.uniform;
  }
  return row;
}

// Mirostat: Basu and others 2021. Adaptive-p aims as far above its target as the tokens before were below it.
void Sampler::set_stages(SampleTokens::Row& row) const {
  std::ranges::fill(row.stages, SampleStage::none);
  if (params_.mirostat != 0) {
    row.stages[0] = SampleStage::temperature;
    row.stages[1] = params_.mirostat == 1 ? SampleStage::zipf : SampleStage::surprise;
    row.temperature_range = 0.0f;
    row.most_surprise = static_cast<float>(most_surprise_);
    return;
  }
  const std::vector<SampleStage>& stages = params_.order.stages;
  std::copy_n(stages.begin(), std::min(stages.size(), std::size(row.stages)), std::begin(row.stages));
  if (params_.adaptive_target >= 0.0f) {
    const double target = 2.0 * double{params_.adaptive_target} - adaptive_sum_ / adaptive_weight_;
    row.target_probability = static_cast<float>(std::clamp(target, 0.0, 1.0));
  }
}

void Sampler::learn(double probability) {
  if (params_.mirostat != 0) {
    const double surprise = -std::log2(std::max(probability, double{std::numeric_limits<float>::min()}));
    most_surprise_ -= double{params_.mirostat_eta} * (surprise - double{params_.mirostat_tau});
    return;
  }
  adaptive_sum_ = probability + double{params_.adaptive_decay} * adaptive_sum_;
  adaptive_weight_ = 1.0 + double{params_.adaptive_decay} * adaptive_weight_;
}

void Sampler::advance(std::size_t count, float probability) {
  if (count > 0 && params_.learns()) {
    learn(probability);
  }
  draws_ += static_cast<std::int64_t>(count);
  chances_.erase(chances_.begin(), chances_.begin() + static_cast<std::ptrdiff_t>(std::min(count, chances_.size())));
}

const Sampler::Chance& Sampler::chance(std::size_t ahead) {
  while (chances_.size() <= ahead) {
    Chance& next = chances_.emplace_back();  // before its numbers are taken: running out of memory uses none
    if (params_.xtc_probability > 0.0f && params_.xtc_threshold <= 0.5f) {
      next.excludes = uniform() < params_.xtc_probability;
    }
    next.uniform = uniform();
  }
  return chances_[ahead];
}

// 53 random bits make a number in [0, 1): the results of the standard library's distributions differ between
// implementations.
double Sampler::uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

void Sampler::count(std::span<const std::int32_t> history) {
  window_.clear();
  if (params_.repeat_penalty == 1.0f && params_.frequency_penalty == 0.0f && params_.presence_penalty == 0.0f) {
    return;
  }
  const auto last_n = static_cast<std::size_t>(params_.repeat_last_n);  // -1 becomes larger than any history
  const std::span<const std::int32_t> window = history.last(std::min(history.size(), last_n));
  window_.assign(window.begin(), window.end());
  std::ranges::sort(window_);
}

void Sampler::gather(std::span<const std::int32_t> history, std::int64_t draw) {
  named_.clear();
  for (const auto& [token, bias] : params_.logit_bias) {
    named_.push_back({.id = token, .bias = bias});
  }
  const std::size_t biased = named_.size();
  const auto forbid = [this](std::int32_t token) { named_.push_back({.id = token, .bias = forbidden}); };
  if (draw < params_.min_tokens) {
    std::ranges::for_each(context_.end_tokens, forbid);
  }
  for (const std::vector<std::int32_t>& word : params_.bad_words) {
    const std::span<const std::int32_t> before(word.data(), word.size() - 1);
    if (before.size() <= history.size() && std::ranges::equal(before, history.last(before.size()))) {
      forbid(word.back());
    }
  }
  if (dry_) {
    for (const Dry::Penalty& penalty : dry_->next(history)) {
      named_.push_back({.id = penalty.token, .penalty = penalty.amount});
    }
  }
  if (named_.size() == biased) {
    return;
  }
  std::ranges::stable_sort(named_, {}, &SampleTokens::Adjustment::id);
  auto last = named_.begin();
  for (auto next = last + 1; next != named_.end(); ++next) {
    if (next->id != last->id) {
      *++last = *next;
      continue;
    }
    last->bias += next->bias;
    last->penalty += next->penalty;
  }
  named_.erase(last + 1, named_.end());
}

std::int32_t Sampler::sample(std::span<const float> logits, std::span<const std::int32_t> history) {
  if (logits.empty()) {
    return -1;
  }
  if (host_ == nullptr) {
    host_ = std::make_unique<HostKernel>();
  }
  const SampleTokens::Spec spec{static_cast<std::int64_t>(logits.size())};
  const auto choice = host_->registry.choose<SampleTokens>(spec, host_->device);
  host_->logits.assign(logits.begin(), logits.end());
  host_->adjustments.clear();
  const SampleTokens::Row row = next(history, host_->adjustments);
  std::int32_t token = -1;
  float probability = 0.0f;
  SampleTokens::Args args;
  args.logits = host_->logits.data();
  args.num_rows = 1;
  args.rows = &row;
  args.adjustments = host_->adjustments.data();
  args.out = &token;
  args.probabilities = &probability;
  ExecutionContext context;
  choice.kernel->run(spec, args, context);
  advance(1, probability);
  return token;
}

}  // namespace rocmforge
