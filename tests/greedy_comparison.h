#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/engine.h"

namespace rocmforge::test {

/// The logits [vocab] of the token after `tokens`, by an engine without work and without a prefix cache.
inline std::vector<float> next_logits(Engine& engine, std::span<const std::int32_t> tokens, std::int32_t batch_tokens) {
  const std::int32_t block_tokens = engine.memory().block_tokens();
  std::vector<std::int32_t> blocks((tokens.size() + static_cast<std::size_t>(block_tokens) - 1) /
                                   static_cast<std::size_t>(block_tokens));
  std::iota(blocks.begin(), blocks.end(), 0);
  BatchPlan plan;
  for (std::int32_t first = 0; first < std::ssize(tokens); first += batch_tokens) {
    const auto piece =
        tokens.subspan(static_cast<std::size_t>(first))
            .first(std::min(tokens.size() - static_cast<std::size_t>(first), static_cast<std::size_t>(batch_tokens)));
    plan.clear();
    plan.add_sequence(piece, first, blocks, first + std::ssize(piece) == std::ssize(tokens));
    for (std::int32_t group = 1; group < engine.memory().num_groups(); ++group) {
      std::vector<std::int32_t> round = blocks;  // in a group with a window blocks are reused in turn
      for (std::int32_t& block : round) {
        block %= engine.memory().pages(group).num_blocks();
      }
      plan.add_blocks(group, round);
    }
    plan.finish();
    engine.model().forward(plan, engine.memory());
  }
  const std::span<const float> logits = engine.model().logits();
  return {logits.begin(), logits.end()};
}

/// Whether the greedy answers to `prompt` are equal up to a position where `reference`, the engine that gave `expected`, has
/// almost equal logits for both tokens. After it they may differ.
inline ::testing::AssertionResult equal_but_for_ties(Engine& reference, const std::vector<std::int32_t>& prompt,
                                                     const std::vector<std::int32_t>& expected,
                                                     const std::vector<std::int32_t>& actual, std::int32_t batch_tokens,
                                                     float margin = 1e-3f) {
  const auto [mine, theirs] = std::ranges::mismatch(expected, actual);
  if (mine == expected.end() && theirs == actual.end()) {
    return ::testing::AssertionSuccess();
  }
  if (mine == expected.end() || theirs == actual.end()) {
    return ::testing::AssertionFailure() << "one answer goes on where the other ends";
  }
  std::vector<std::int32_t> tokens = prompt;
  tokens.insert(tokens.end(), expected.begin(), mine);
  const std::vector<float> logits = next_logits(reference, tokens, batch_tokens);
  const float gap = logits[static_cast<std::size_t>(*mine)] - logits[static_cast<std::size_t>(*theirs)];
  if (std::abs(gap) <= margin) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "token " << mine - expected.begin() << " is " << *theirs << ", expected " << *mine
                                       << ", whose logit is higher by " << gap;
}

}  // namespace rocmforge::test
