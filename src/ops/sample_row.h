#pragma once

#include <cstdint>

#include "base/sample_stage.h"

namespace rocmforge {

// Plain data of SampleTokens, the same in host and device code.

/// One row's parameters. The defaults take the most likely token.
struct SampleRow {
  static constexpr int num_stages = 7;

  double uniform = 0.0;      ///< in [0, 1): the random number of this draw
  float temperature = 0.0f;  ///< 0 or less: the most likely token
  float top_p = 1.0f;        ///< keep the most likely tokens that together reach this mass
  float min_p = 0.0f;        ///< keep tokens with at least this fraction of the largest probability
  float typical_p = 1.0f;    ///< keep the tokens closest to the entropy that together reach this mass
  float top_n_sigma = 0.0f;  ///< keep logits at most this many standard deviations below the largest; 0 or less: all
  /// Of the tokens with at least this probability keep only the least probable (XTC, "exclude top choices"); above 0.5: all
  float xtc_threshold = 1.0f;
  /// Above 0: the temperature goes from temperature - range, where one token has all probability, to temperature + range,
  /// where all have the same. Between them it grows with (entropy / its largest value)^temperature_exponent.
  float temperature_range = 0.0f;
  float temperature_exponent = 1.0f;
  /// Mirostat (Basu and others 2021), bits. Stage `surprise` keeps the tokens whose -log2(probability) is at most this, and
  /// those as likely as the most likely one. `zipf` keeps the (e * 2^most_surprise / (1 - vocab^-e))^(1 / s) most likely
  /// ones, rounded down, at least one; s is Zipf's exponent by least squares over the zipf_tokens most likely tokens left,
  /// e = s - 1, and (1 / log(vocab)) takes the place of e / (1 - vocab^-e) where e * log(vocab) is below least_zipf.
  float most_surprise = 0.0f;
  /// From 0 on: tokens left with a probability close to it are drawn most often, see adaptive_exponent(). Below 0: off.
  float target_probability = -1.0f;
  std::int32_t min_keep = 0;  ///< top-p, min-p and typical-p keep at least so many tokens; XTC acts only if so many remain
  float repeat_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  std::int32_t top_k = 0;  ///< 0 or less: all
  std::int32_t first_adjustment = 0;
  std::int32_t num_adjustments = 0;
  std::int32_t mask = -1;  ///< index of the row's mask; -1: every token may be drawn
  /// Each stage at most once. Without `temperature` tokens are drawn at temperature 1.
  SampleStage stages[num_stages] = {SampleStage::top_n_sigma, SampleStage::top_k, SampleStage::typical_p,
                                    SampleStage::top_p,       SampleStage::min_p, SampleStage::xtc,
                                    SampleStage::temperature};
};

/// Whether the stage changes anything.
constexpr bool is_active(const SampleRow& row, SampleStage stage) {
  switch (stage) {
    case SampleStage::none:
      return false;
    case SampleStage::top_n_sigma:
      return row.top_n_sigma > 0.0f;
    case SampleStage::top_k:
      return row.top_k > 0;
    case SampleStage::typical_p:
      return row.typical_p < 1.0f;
    case SampleStage::top_p:
      return row.top_p < 1.0f;
    case SampleStage::min_p:
      return row.min_p > 0.0f;
    case SampleStage::xtc:
      return row.xtc_threshold <= 0.5f;
    case SampleStage::temperature:
    case SampleStage::zipf:
    case SampleStage::surprise:
      return true;
  }
  return false;
}

/// Whether the stage minds SampleRow::min_keep.
constexpr bool keeps_some(SampleStage stage) {
  return stage == SampleStage::typical_p || stage == SampleStage::top_p || stage == SampleStage::min_p ||
         stage == SampleStage::xtc;
}

/// Whether the draw tells the probability of its token.
constexpr bool tells_probability(const SampleRow& row) {
  bool tells = row.target_probability >= 0.0f;
  for (const SampleStage stage : row.stages) {
    tells = tells || stage == SampleStage::zipf || stage == SampleStage::surprise;
  }
  return tells && row.temperature > 0.0f;
}

/// The first stage that changes anything; none if there is none.
constexpr SampleStage first_active(const SampleRow& row) {
  for (const SampleStage stage : row.stages) {
    if (is_active(row, stage)) {
      return stage;
    }
  }
  return SampleStage::none;
}

/// Lower temperatures take the most likely token as this one does.
constexpr double least_temperature = 1e-30;

/// The temperature of SampleRow::temperature_range, where (entropy / its largest value)^temperature_exponent is
/// `power_of_share`.
constexpr double dynamic_temperature(const SampleRow& row, double power_of_share) {
  const double low = row.temperature > row.temperature_range ? double{row.temperature} - double{row.temperature_range} : 0.0;
  return low + (double{row.temperature} + double{row.temperature_range} - low) * power_of_share;
}

/// The most likely tokens from which stage `zipf` estimates the exponent of Zipf's law.
constexpr std::int32_t zipf_tokens = 100;
constexpr double least_zipf = 1e-6;

/// Adaptive-p: the logarithm of the weight of a token whose probability is `distance` away from the target.
constexpr double adaptive_exponent(double distance) {
  constexpr double widths_of_one = 1.0 / 0.3;
  constexpr double sharpness = 10.0;
  const double d = distance * widths_of_one;
  return -sharpness * d * d / (1.0 + d);
}

/// 32-bit words of a mask: bit t % 32 of word t / 32 is set when token t may be drawn.
constexpr std::int64_t sample_mask_words(std::int64_t vocab) { return (vocab + 31) / 32; }

constexpr bool mask_allows(const std::uint32_t* mask, std::int64_t token) {
  return (mask[token / 32] >> (token % 32) & 1u) != 0;
}

/// The change of one token's logit; see adjusted().
struct SampleAdjustment {
  std::int32_t id = 0;  ///< each at most once a row
  std::int32_t count = 0;
  float bias = 0.0f;
  float penalty = 0.0f;  ///< subtracted at last
};

/// Scratch of one row.
struct SampleScratch {
  static constexpr std::int32_t chunks = 1024;
  static constexpr std::int32_t candidates = 4096;

  std::uint64_t best[chunks];  ///< of each run of ids: the largest logit's key and, below it, the id's complement
  float values[candidates];    ///< logits of the tokens that may be among the top_k, in the order of their ids
  std::int32_t ids[candidates];
};

/// += bias; then, when the token occurred `count` > 0 times in the window, (logit > 0 ? / : *) repeat_penalty and
/// -= count * frequency_penalty + presence_penalty; then -= penalty. Every product of two floats is exact in double, so that
/// fused and separate arithmetic give the same bits.
constexpr float adjusted(float logit, const SampleRow& row, const SampleAdjustment& adjustment) {
  const float biased = logit + adjustment.bias;
  if (adjustment.count <= 0) {
    return biased - adjustment.penalty;
  }
  const double repeat = row.repeat_penalty;
  const double scaled = biased > 0.0f ? double{biased} / repeat : double{biased} * repeat;
  const double penalty =
      static_cast<double>(adjustment.count) * double{row.frequency_penalty} + double{row.presence_penalty};
  return static_cast<float>(scaled - penalty) - adjustment.penalty;
}

}  // namespace rocmforge
