#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/sample_row.h"

// Sampling by its definition (ops/sample.h), on a sorted list of all tokens.

namespace rocmforge::test {

/// A call's rows of one vocabulary.
struct SampleProblem {
  std::int64_t vocab = 0;
  std::vector<float> logits;
  std::vector<SampleRow> rows;
  std::vector<SampleAdjustment> adjustments;
  std::vector<std::uint32_t> masks;

  /// A mask of the vocabulary for the row that was added last.
  template <class Allows>
  void add_mask(const Allows& allows) {
    const auto words = static_cast<std::size_t>(sample_mask_words(vocab));
    rows.back().mask = static_cast<std::int32_t>(masks.size() / words);
    masks.resize(masks.size() + words, 0);
    for (std::int64_t token = 0; token < vocab; ++token) {
      if (allows(token)) {
        masks[masks.size() - words + static_cast<std::size_t>(token / 32)] |= 1u << (token % 32);
      }
    }
  }

  void add(std::vector<float> row_logits, SampleRow row, const std::vector<SampleAdjustment>& row_adjustments = {}) {
    vocab = static_cast<std::int64_t>(row_logits.size());
    row.first_adjustment = static_cast<std::int32_t>(adjustments.size());
    row.num_adjustments = static_cast<std::int32_t>(row_adjustments.size());
    logits.insert(logits.end(), row_logits.begin(), row_logits.end());
    rows.push_back(row);
    adjustments.insert(adjustments.end(), row_adjustments.begin(), row_adjustments.end());
  }
  [[nodiscard]] std::span<const float> row_logits(std::size_t r) const {
    const auto size = static_cast<std::size_t>(vocab);
    return std::span(logits).subspan(r * size, size);
  }
};

/// The logits of a row once its adjustments and its mask are made.
std::vector<float> adjusted_logits(const SampleProblem& problem, std::size_t r);
/// The token that a row draws, -1 where all are forbidden, and its probability among those that the stages left.
struct ExpectedDraw {
  std::int32_t token = -1;
  double probability = 0.0;
};
ExpectedDraw expected_draw(const SampleProblem& problem, std::size_t r);

}  // namespace rocmforge::test
