#include "grammar/grammar.h"

#include <algorithm>
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

std::vector<bool> expressions_that_derive(const Grammar& grammar, Derivation derivation, WorkBudget& budget) {
  using Kind = GrammarExpression::Kind;
  constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
  const std::size_t count = grammar.expressions.size();
  budget.spend(4 * count);
  // The number of parts that each expression still needs, and the expressions that wait for it: the one it is part of, or
  // references to its rule.
  std::vector<std::uint32_t> missing(count);
  std::vector<std::int32_t> owner(count, -1), rule_of_body(count, -1), next_user(count, -1);
  std::vector<std::int32_t> first_user(grammar.rules.size(), -1);
  std::vector<std::int32_t> pending;
  for (std::size_t rule = 0; rule < grammar.rules.size(); ++rule) {
    if (grammar.rules[rule].body >= 0) {
      rule_of_body[static_cast<std::size_t>(grammar.rules[rule].body)] = static_cast<std::int32_t>(rule);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const GrammarExpression& one = grammar.expressions[i];
    const auto number = static_cast<std::int32_t>(i);
    if (one.kind == Kind::literal || one.kind == Kind::characters) {
      const bool is_empty = one.kind == Kind::literal && one.count == 0;
      missing[i] = derivation == Derivation::finite || is_empty ? 0 : never;
    } else if (one.kind == Kind::reference) {
      missing[i] = 1;
      next_user[i] = std::exchange(first_user[static_cast<std::size_t>(one.rule)], number);
    } else {
      missing[i] = one.kind == Kind::sequence ? one.count : one.kind == Kind::repeat && one.minimum == 0 ? 0 : 1;
      for (const std::int32_t part : grammar.parts_of(one)) {
        owner[static_cast<std::size_t>(part)] = number;
      }
    }
    if (missing[i] == 0) {
      pending.push_back(number);
    }
  }
  std::vector<bool> derived(count, false);
  const auto take_part = [&](std::int32_t number) {
    if (--missing[static_cast<std::size_t>(number)] == 0) {
      pending.push_back(number);
    }
  };
  while (!pending.empty()) {
    const auto i = static_cast<std::size_t>(pending.back());
    pending.pop_back();
    if (derived[i]) {
      continue;
    }
    derived[i] = true;
    if (owner[i] >= 0 && !derived[static_cast<std::size_t>(owner[i])] && missing[static_cast<std::size_t>(owner[i])] > 0) {
      take_part(owner[i]);
    }
    if (rule_of_body[i] >= 0) {
      const auto rule = static_cast<std::size_t>(rule_of_body[i]);
      for (std::int32_t user = first_user[rule]; user >= 0; user = next_user[static_cast<std::size_t>(user)]) {
        take_part(user);
      }
    }
  }
  return derived;
}

}  // namespace rocmforge
