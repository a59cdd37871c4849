#pragma once

#include <cstdint>

namespace rocmforge {

// Plain data of SampleTokens, the same in host and device code.

/// One row's parameters. The defaults take the most likely token.
struct SampleRow {
  double uniform = 0.0;      ///< in [0, 1): the random number of this draw
  float temperature = 0.0f;  ///< 0 or less: the most likely token
  float top_p = 1.0f;        ///< keep the most likely tokens that together reach this mass
  float min_p = 0.0f;        ///< keep tokens with at least this fraction of the largest probability
  float typical_p = 1.0f;    ///< keep the tokens closest to the entropy that together reach this mass
  float repeat_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  std::int32_t top_k = 0;  ///< 0 or less: all
  std::int32_t first_adjustment = 0;
  std::int32_t num_adjustments = 0;
  std::int32_t mask = -1;  ///< index of the row's mask; -1: every token may be drawn
};

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
