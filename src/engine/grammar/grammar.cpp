#include "engine/grammar/grammar.h"

#include <algorithm>

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

void add_references(const GrammarExpression& expression, std::vector<std::int32_t>& rules) {
  if (expression.kind == GrammarExpression::Kind::reference) {
    rules.push_back(expression.rule);
  }
  for (const GrammarExpression& part : expression.parts) {
    add_references(part, rules);
  }
}

bool derives(const GrammarExpression& expression, Derivation derivation, const std::vector<bool>& rules) {
  using Kind = GrammarExpression::Kind;
  const auto holds = [&](const GrammarExpression& part) { return derives(part, derivation, rules); };
  switch (expression.kind) {
    case Kind::literal:
      return derivation == Derivation::finite || expression.text.empty();
    case Kind::characters:
      return derivation == Derivation::finite;
    case Kind::reference:
      return rules[static_cast<std::size_t>(expression.rule)];
    case Kind::sequence:
      return std::all_of(expression.parts.begin(), expression.parts.end(), holds);
    case Kind::choice:
      return std::any_of(expression.parts.begin(), expression.parts.end(), holds);
    case Kind::repeat:
      return expression.minimum == 0 || holds(expression.parts.front());
  }
  return false;
}

std::vector<bool> rules_that_derive(const Grammar& grammar, Derivation derivation) {
  const std::size_t count = grammar.rules.size();
  std::vector<std::vector<std::int32_t>> users(count);
  std::vector<std::int32_t> references, pending;
  for (std::size_t rule = 0; rule < count; ++rule) {
    references.clear();
    add_references(grammar.rules[rule].body, references);
    std::sort(references.begin(), references.end());
    references.erase(std::unique(references.begin(), references.end()), references.end());
    for (const std::int32_t used : references) {
      users[static_cast<std::size_t>(used)].push_back(static_cast<std::int32_t>(rule));
    }
    pending.push_back(static_cast<std::int32_t>(rule));
  }
  std::vector<bool> derived(count, false);
  while (!pending.empty()) {
    const auto rule = static_cast<std::size_t>(pending.back());
    pending.pop_back();
    if (!derived[rule] && derives(grammar.rules[rule].body, derivation, derived)) {
      derived[rule] = true;
      pending.insert(pending.end(), users[rule].begin(), users[rule].end());
    }
  }
  return derived;
}

}  // namespace rocmforge
