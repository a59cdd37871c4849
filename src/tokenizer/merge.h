#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "base/work_budget.h"

namespace rocmforge {

/// A part of the text that is merged: an element of a doubly linked list that covers the text.
struct MergeSymbol {
  std::uint32_t begin = 0;   ///< bytes from the start of the text
  std::uint32_t length = 0;  ///< 0 after it was merged into the symbol before it
  std::int32_t previous = -1;
  std::int32_t next = -1;
  std::int32_t value = -1;  ///< a number of the tokenizer for this symbol: a token id, or a number of its own
};

/// The merge of two neighbours. The lowest priority is merged first.
struct MergeResult {
  std::uint32_t priority = 0;
  std::int32_t value = -1;
};

/// Appends a symbol to the list.
inline void append_symbol(std::vector<MergeSymbol>& symbols, std::size_t begin, std::size_t length, std::int32_t value) {
  const auto index = static_cast<std::int32_t>(symbols.size());
  if (index > 0) {
    symbols.back().next = index;
  }
  symbols.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(length), index - 1, -1, value});
}

/// Merges neighbours as long as `join(left, right)` returns a result: the lowest priority first, and the leftmost among
/// equal ones. O(n log n) for n symbols. `budget` may be null; throws Error when it is used up.
template <class Join>
void merge_symbols(std::vector<MergeSymbol>& symbols, WorkBudget* budget, const Join& join) {
  constexpr std::uint64_t units_of_a_symbol = 2, units_of_a_merge = 4;
  spend(budget, units_of_a_symbol * symbols.size());
  struct Candidate {
    std::uint64_t order;   // priority, then the index of the left symbol
    std::uint32_t length;  // of both symbols; another length now means that the candidate is stale
    std::int32_t value;
    bool operator>(const Candidate& other) const { return order > other.order; }
  };
  const auto candidate = [&](std::int32_t left) -> std::optional<Candidate> {
    const MergeSymbol& first = symbols[static_cast<std::size_t>(left)];
    if (first.next < 0) {
      return std::nullopt;
    }
    const MergeSymbol& second = symbols[static_cast<std::size_t>(first.next)];
    const std::optional<MergeResult> result = join(first, second);
    if (!result) {
      return std::nullopt;
    }
    return Candidate{static_cast<std::uint64_t>(result->priority) << 32 | static_cast<std::uint32_t>(left),
                     first.length + second.length, result->value};
  };

  // Most candidates exist from the start: sorting them once costs less than keeping them all in the queue.
  std::vector<Candidate> initial;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (const auto found = candidate(static_cast<std::int32_t>(i))) {
      initial.push_back(*found);
    }
  }
  std::sort(initial.begin(), initial.end(), [](const Candidate& a, const Candidate& b) { return a.order < b.order; });
  auto next_initial = initial.cbegin();
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  while (next_initial != initial.cend() || !queue.empty()) {
    spend(budget, units_of_a_merge);
    Candidate best;
    if (queue.empty() || (next_initial != initial.cend() && !(*next_initial > queue.top()))) {
      best = *next_initial++;
    } else {
      best = queue.top();
      queue.pop();
    }
    const auto left = static_cast<std::int32_t>(best.order & 0xffffffffu);
    MergeSymbol& first = symbols[static_cast<std::size_t>(left)];
    if (first.length == 0 || first.next < 0) {
      continue;
    }
    MergeSymbol& second = symbols[static_cast<std::size_t>(first.next)];
    if (first.length + second.length != best.length) {
      continue;
    }
    first.length = best.length;
    first.value = best.value;
    first.next = second.next;
    second.length = 0;
    if (first.next >= 0) {
      symbols[static_cast<std::size_t>(first.next)].previous = left;
    }
    if (const auto found = candidate(left)) {
      queue.push(*found);
    }
    if (first.previous >= 0) {
      if (const auto found = candidate(first.previous)) {
        queue.push(*found);
      }
    }
  }
}

}  // namespace rocmforge
