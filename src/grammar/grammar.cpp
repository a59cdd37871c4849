#include "grammar/grammar.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace rocmforge {
namespace {

constexpr char32_t last_code_point = 0x10FFFF, first_surrogate = 0xD800, last_surrogate = 0xDFFF;

}  // namespace

std::vector<CodeRange> normalize(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> valid;
  for (const CodeRange& range : ranges) {
    const auto add = [&](char32_t first, char32_t last) {
      if (first <= last) {
        valid.push_back({first, last});
      }
    };
    add(range.first, std::min(range.last, char32_t{first_surrogate - 1}));
    add(std::max(range.first, char32_t{last_surrogate + 1}), std::min(range.last, last_code_point));
  }
  std::sort(valid.begin(), valid.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> joined;
  for (const CodeRange& range : valid) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

std::vector<CodeRange> complement(const std::vector<CodeRange>& ranges) {
  std::vector<CodeRange> missing;
  char32_t next = 0;
  for (const CodeRange& range : ranges) {
    if (range.first > next) {
      missing.push_back({next, range.first - 1});
    }
    next = range.last + 1;
  }
  if (next <= last_code_point) {
    missing.push_back({next, last_code_point});
  }
  return normalize(std::move(missing));
}

std::vector<CodeRange> intersection(const std::vector<CodeRange>& a, const std::vector<CodeRange>& b) {
  std::vector<CodeRange> outside = complement(a);
  const std::vector<CodeRange> outside_b = complement(b);
  outside.insert(outside.end(), outside_b.begin(), outside_b.end());
  return complement(normalize(std::move(outside)));
}

std::vector<bool> expressions_that_derive(const Grammar& grammar, Derivation derivation, WorkBudget& budget) {
  using Kind = GrammarExpression::Kind;
  constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
  const std::size_t count = grammar.expressions.size();
  budget.spend(4 * count + 2 * grammar.parts.size());
  const auto for_each_need = [&](const auto& take) {  // take(an expression, what it needs)
    for (std::size_t i = 0; i < count; ++i) {
      const GrammarExpression& one = grammar.expressions[i];
      if (one.kind == Kind::reference) {
        take(i, static_cast<std::size_t>(grammar.rules[static_cast<std::size_t>(one.rule)].body));
      } else if (Grammar::has_parts(one)) {
        for (const std::int32_t part : grammar.parts_of(one)) {
          take(i, static_cast<std::size_t>(part));
        }
      }
    }
  };
  // The expressions that need expression i are users[user_end[i - 1]..user_end[i]).
  std::vector<std::uint32_t> user_end(count + 1, 0);
  for_each_need([&](std::size_t, std::size_t needed) { ++user_end[needed + 1]; });
  std::partial_sum(user_end.begin(), user_end.end(), user_end.begin());
  std::vector<std::uint32_t> users(user_end.back());
  for_each_need([&](std::size_t user, std::size_t needed) { users[user_end[needed]++] = static_cast<std::uint32_t>(user); });

  std::vector<std::uint32_t> missing(count);  // the number of needs that are not met yet
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < count; ++i) {
    const GrammarExpression& one = grammar.expressions[i];
    if (one.kind == Kind::literal || one.kind == Kind::characters || one.kind == Kind::automaton) {
      const bool is_empty =
          one.kind == Kind::automaton ? grammar.states_of(one).front().ends : one.kind == Kind::literal && one.count == 0;
      missing[i] = derivation == Derivation::finite || is_empty ? 0 : never;
    } else {
      missing[i] = one.kind == Kind::sequence ? one.count : one.kind == Kind::repeat && one.minimum == 0 ? 0 : 1;
    }
    if (missing[i] == 0) {
      pending.push_back(i);
    }
  }
  std::vector<bool> derived(count, false);
  while (!pending.empty()) {
    const std::size_t i = pending.back();
    pending.pop_back();
    derived[i] = true;
    for (std::size_t user = i == 0 ? 0 : user_end[i - 1]; user < user_end[i]; ++user) {
      std::uint32_t& left = missing[users[user]];
      if (left > 0 && --left == 0) {
        pending.push_back(users[user]);
      }
    }
  }
  return derived;
}

}  // namespace rocmforge
