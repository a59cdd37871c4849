#include "models/step/adapter_rows.h"

#include <algorithm>

namespace rocmforge {
namespace {

/// Those that act at place `place` of their sequence.
std::span<const AdapterUse> acting(std::span<const AdapterUse> uses, std::int32_t place) {
  const auto end = std::ranges::upper_bound(uses, place, {}, &AdapterUse::from);
  return {uses.begin(), end};
}

/// Adds a row behind those of `runs`.
void add_row(std::vector<AdapterRun>& runs, std::int32_t row, std::span<const AdapterUse> uses) {
  if (uses.empty()) {
    return;
  }
  if (!runs.empty() && runs.back().first + runs.back().count == row && std::ranges::equal(runs.back().uses, uses)) {
    ++runs.back().count;
  } else {
    runs.push_back({row, 1, uses});
  }
}

}  // namespace

AdapterRows::AdapterRows(const BatchPlan& plan) {
  if (plan.adapters.empty()) {
    return;
  }
  const auto uses_of = [&plan](std::int32_t token) {
    const auto sequence = static_cast<std::size_t>(plan.sequence_of[static_cast<std::size_t>(token)]);
    const std::int32_t behind = plan.query_offsets[sequence + 1] - token;  // rows of the sequence from this one on
    return acting(plan.adapters[sequence], plan.kv_lengths[sequence] - behind);
  };
  for (std::int32_t token = 0; token < plan.num_tokens(); ++token) {
    add_row(tokens_, token, uses_of(token));
  }
  const auto add_rows = [&](std::vector<AdapterRun>& runs, const std::vector<std::int32_t>& tokens) {
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      add_row(runs, static_cast<std::int32_t>(row), uses_of(tokens[row]));
    }
  };
  add_rows(logits_, plan.logit_rows);
  add_rows(hidden_, plan.hidden_rows);
}

}  // namespace rocmforge
