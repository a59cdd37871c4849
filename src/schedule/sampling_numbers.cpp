#include "schedule/sampling_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace rocmforge {
namespace {

constexpr double any_count = std::numeric_limits<std::int32_t>::max();
constexpr double largest = std::numeric_limits<float>::max();
constexpr SamplingRange finite{-largest, largest, false, "a finite number"};
constexpr SamplingRange finite_from_0{0.0, largest, false, "a finite number of at least 0"};
constexpr SamplingRange share{0.0, 1.0, false, "in [0, 1]"};
constexpr SamplingRange share_above_0{0.0, 1.0, true, "in (0, 1]"};
constexpr SamplingRange from_0{0.0, any_count, false, "0 or more"};
constexpr SamplingRange recent_tokens{-1.0, any_count, false, "-1 (all), 0 (none) or more"};

constexpr auto numbers = std::to_array<SamplingNumber>({
    {"temperature", "--temp", "temp", 0.0, 2.0, &SamplingParams::temperature, finite, "Temperature; 0: greedy"},
    {"top_k",
     "--top-k",
     "top_k",
     -1.0,
     any_count,
     &SamplingParams::top_k,
     {0.0, any_count, false, "0 (off) or more"},
     "The K most probable tokens; 0: off"},
    {"top_p", "--top-p", "top_p", 0.0, 1.0, &SamplingParams::top_p, share_above_0,
     "The most probable tokens that make up P; 1: off"},
    {"min_p", "--min-p", "min_p", 0.0, 1.0, &SamplingParams::min_p, share,
     "Tokens at least P times as probable as the best; 0: off"},
    {"typical_p", "--typical", "", 0.0, 1.0, &SamplingParams::typical_p, share_above_0,
     "Tokens closest to the expected surprise that make up P; 1: off"},
    {"top_n_sigma", "--top-n-sigma", "", -1.0, 100.0, &SamplingParams::top_n_sigma, finite,
     "Logits within N standard deviations of the largest; -1, 0: off"},
    {"xtc_probability", "--xtc-probability", "xtc_probability", 0.0, 1.0, &SamplingParams::xtc_probability, share,
     "How often XTC excludes the most probable tokens; 0: off"},
    {"xtc_threshold", "--xtc-threshold", "xtc_threshold", 0.0, 1.0, &SamplingParams::xtc_threshold, share,
     "XTC: of the tokens at least so probable only the last is kept; above 0.5: off"},
    {"dynatemp_range", "--dynatemp-range", "", 0.0, 2.0, &SamplingParams::dynatemp_range, finite_from_0,
     "The temperature varies by it with the entropy; 0: off"},
    {"dynatemp_exponent", "--dynatemp-exp", "", 0.0, 10.0, &SamplingParams::dynatemp_exponent, finite_from_0,
     "The power of the entropy that sets the temperature"},
    {"mirostat",
     "--mirostat",
     "mirostat",
     0.0,
     2.0,
     &SamplingParams::mirostat,
     {0.0, 2.0, false, "0 (off), 1 or 2"},
     "Mirostat 1 or 2 in place of the filters; 0: off"},
    {"mirostat_tau", "--mirostat-ent", "mirostat_tau", 0.0, 100.0, &SamplingParams::mirostat_tau, finite_from_0,
     "Mirostat: the surprise of tokens that it aims at, bits"},
    {"mirostat_eta", "--mirostat-lr", "mirostat_eta", 0.0, 10.0, &SamplingParams::mirostat_eta, finite_from_0,
     "Mirostat: how fast it follows the tokens' surprise"},
    {"adaptive_target",
     "--adaptive-target",
     "",
     -1.0,
     1.0,
     &SamplingParams::adaptive_target,
     {-std::numeric_limits<double>::infinity(), 1.0, false, "at most 1; below 0: off"},
     "Draw tokens of about that probability (adaptive-p); below 0: off"},
    {"adaptive_decay",
     "--adaptive-decay",
     "",
     0.0,
     0.99,
     &SamplingParams::adaptive_decay,
     {0.0, double{0.99f}, false, "in [0, 0.99]"},
     "Adaptive-p: the weight of earlier tokens in the average"},
    {"min_keep", "--min-keep", "", 0.0, any_count, &SamplingParams::min_keep, from_0,
     "Tokens that top-p, min-p, typical-p and XTC leave at least"},
    {"repeat_last_n", "--repeat-last-n", "penalty_last_n", -1.0, any_count, &SamplingParams::repeat_last_n, recent_tokens,
     "Tokens that count as recent; -1: all"},
    {"repeat_penalty",
     "--repeat-penalty",
     "penalty_repeat",
     0.01,
     10.0,
     &SamplingParams::repeat_penalty,
     {0.0, largest, true, "a finite number above 0"},
     "Divide the logits of recent tokens; 1: off"},
    {"presence_penalty", "--presence-penalty", "", -2.0, 2.0, &SamplingParams::presence_penalty, finite,
     "Subtract once; 0: off"},
    {"frequency_penalty", "--frequency-penalty", "", -2.0, 2.0, &SamplingParams::frequency_penalty, finite,
     "Subtract per occurrence; 0: off"},
    {"dry_multiplier", "--dry-multiplier", "", 0.0, 100.0, &SamplingParams::dry_multiplier, finite_from_0,
     "Penalise tokens that go on with a repetition (DRY); 0: off"},
    {"dry_base",
     "--dry-base",
     "",
     1.0,
     100.0,
     &SamplingParams::dry_base,
     {1.0, largest, false, "a finite number of at least 1"},
     "DRY: the penalty grows by it with each repeated token"},
    {"dry_allowed_length", "--dry-allowed-length", "", 0.0, any_count, &SamplingParams::dry_allowed_length, from_0,
     "DRY: repeated tokens that cost nothing"},
    {"dry_penalty_last_n", "--dry-penalty-last-n", "", -1.0, any_count, &SamplingParams::dry_last_n, recent_tokens,
     "DRY: tokens that are searched; -1: all"},
});
}  // namespace

double SamplingNumber::get(const SamplingParams& params) const {
  return std::visit([&](auto value) { return static_cast<double>(params.*value); }, member);
}

void SamplingNumber::set(SamplingParams& params, double value) const {
  if (const auto* real = std::get_if<float SamplingParams::*>(&member)) {
    const bool is_share = *real == &SamplingParams::top_p || *real == &SamplingParams::typical_p;
    // With the smallest positive number only the most likely token remains.
    params.*(*real) =
        std::max(static_cast<float>(value), is_share ? std::numeric_limits<float>::min() : static_cast<float>(least));
  } else {
    const auto whole = std::get<std::int32_t SamplingParams::*>(member);
    const auto count = static_cast<std::int32_t>(value);
    params.*whole = whole == &SamplingParams::top_k ? std::max(count, 0) : count;
  }
}

std::string SamplingNumber::problem(const SamplingParams& params) const {
  const double value = get(params);
  const bool is_low = valid.above_least ? value <= valid.least : value < valid.least;
  if (!std::isnan(value) && !is_low && value <= valid.most) {
    return {};
  }
  return std::visit([&](auto number) { return fmt::format("{} is {}, must be {}", name, params.*number, valid.words); },
                    member);
}

std::span<const SamplingNumber> sampling_numbers() { return numbers; }

void SamplingChoices::apply(SamplingParams& params) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) {
      numbers[i].set(params, *values[i]);
    }
  }
  params.order = order.value_or(params.order);
}

}  // namespace rocmforge
