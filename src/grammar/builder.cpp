#include "grammar/builder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

using Kind = GrammarExpression::Kind;

constexpr std::size_t longest_name = 60;

}  // namespace

GrammarNode GrammarBuilder::add(const GrammarExpression& expression, std::size_t size) {
  size_ += 1 + size;
  if (size_ > largest_size) {
    throw Error("grammar: too large: it takes more than " + std::to_string(largest_size) + " pieces");
  }
  budget_.spend(4 + size / 4);
  grammar_.expressions.push_back(expression);
  return static_cast<GrammarNode>(grammar_.expressions.size() - 1);
}

GrammarNode GrammarBuilder::literal(std::string_view text) {
  const auto first = static_cast<std::uint32_t>(grammar_.text.size());
  const GrammarNode node =
      add({.kind = Kind::literal, .first = first, .count = static_cast<std::uint32_t>(text.size())}, text.size());
  grammar_.text += text;
  return node;
}

GrammarNode GrammarBuilder::characters(std::span<const CodeRange> ranges) {
  check(!ranges.empty(), "a class of characters holds one");
  const auto first = static_cast<std::uint32_t>(grammar_.ranges.size());
  const GrammarNode node =
      add({.kind = Kind::characters, .first = first, .count = static_cast<std::uint32_t>(ranges.size())}, ranges.size());
  grammar_.ranges.insert(grammar_.ranges.end(), ranges.begin(), ranges.end());
  return node;
}

GrammarNode GrammarBuilder::add_parts(Kind kind, std::span<const GrammarNode> parts) {
  if (parts.size() == 1) {
    return parts.front();
  }
  const auto first = static_cast<std::uint32_t>(grammar_.parts.size());
  const GrammarNode node =
      add({.kind = kind, .first = first, .count = static_cast<std::uint32_t>(parts.size())}, parts.size());
  std::ranges::transform(parts, std::back_inserter(grammar_.parts), [](GrammarNode part) { return std::int32_t(part); });
  return node;
}

GrammarNode GrammarBuilder::sequence(std::span<const GrammarNode> parts) {
  return parts.empty() ? literal("") : add_parts(Kind::sequence, parts);
}

GrammarNode GrammarBuilder::choice(std::span<const GrammarNode> parts) {
  check(!parts.empty(), "a choice has alternatives");
  return add_parts(Kind::choice, parts);
}

GrammarNode GrammarBuilder::repeat(GrammarNode part, std::uint64_t minimum, std::uint64_t maximum) {
  const bool is_bounded = maximum < unbounded;
  if (maximum < minimum) {
    throw Error("grammar: at most " + std::to_string(maximum) + " repetitions are fewer than at least " +
                std::to_string(minimum));
  }
  if (minimum > most_repetitions || (is_bounded && maximum > most_repetitions)) {
    throw Error("grammar: more than " + std::to_string(most_repetitions) + " repetitions");
  }
  if (maximum == 0) {
    return literal("");
  }
  if (minimum == 1 && maximum == 1) {
    return part;
  }
  const auto first = static_cast<std::uint32_t>(grammar_.parts.size());
  const GrammarNode node = add({.kind = Kind::repeat,
                                .first = first,
                                .count = 1,
                                .minimum = static_cast<std::uint32_t>(minimum),
                                .maximum = static_cast<std::uint32_t>(std::min(maximum, unbounded))},
                               1);
  grammar_.parts.push_back(std::int32_t(part));
  return node;
}

GrammarNode GrammarBuilder::automaton(std::span<const AutomatonState> states) {
  check(!states.empty(), "an automaton begins at a state");
  const auto first = static_cast<std::uint32_t>(grammar_.states.size());
  std::size_t size = states.size();
  for (const AutomatonState& state : states) {
    size += state.edges.size();
  }
  const GrammarNode node =
      add({.kind = Kind::automaton, .first = first, .count = static_cast<std::uint32_t>(states.size())}, size);
  for (const AutomatonState& state : states) {
    const auto first_edge = static_cast<std::uint32_t>(grammar_.edges.size());
    grammar_.states.push_back({first_edge, static_cast<std::uint32_t>(state.edges.size()), state.ends});
    for (const auto& [part, target] : state.edges) {
      grammar_.edges.push_back({std::int32_t(part), static_cast<std::uint32_t>(target)});
    }
  }
  return node;
}

GrammarRule GrammarBuilder::declare(std::string_view name) {
  if (grammar_.rules.size() == most_rules) {
    throw Error("grammar: more than " + std::to_string(most_rules) + " rules");
  }
  grammar_.rules.push_back({.name = std::string(name.substr(0, longest_name)) + (name.size() > longest_name ? "..." : "")});
  return static_cast<GrammarRule>(grammar_.rules.size() - 1);
}

void GrammarBuilder::define(GrammarRule rule, GrammarNode body, std::int32_t line) {
  Grammar::Rule& defined = grammar_.rules[static_cast<std::size_t>(rule)];
  check(defined.body < 0, "a rule is defined once");
  defined.body = std::int32_t(body);
  defined.line = line;
}

GrammarNode GrammarBuilder::reference(GrammarRule rule) {
  return add({.kind = Kind::reference, .rule = std::int32_t(rule)}, 0);
}

GrammarNode GrammarBuilder::add_rule(std::string_view name, GrammarNode body) {
  const GrammarRule rule = declare(name);
  define(rule, body);
  return reference(rule);
}

Grammar GrammarBuilder::finish(GrammarNode root) {
  const GrammarRule rule = declare("root");
  define(rule, root);
  return finish(rule);
}

Grammar GrammarBuilder::finish(GrammarRule root) {
  grammar_.root = std::int32_t(root);
  for (const GrammarExpression& one : grammar_.expressions) {
    check(one.kind != Kind::reference || grammar_.rules[static_cast<std::size_t>(one.rule)].body >= 0,
          "a rule that is referred to is defined");
  }
  check_finite();
  return std::move(grammar_);
}

/// Rules that the root does not need are not checked.
void GrammarBuilder::check_finite() const {
  const std::vector<bool> finite = expressions_that_derive(grammar_, Derivation::finite, budget_);
  std::vector<bool> seen(grammar_.expressions.size(), false);
  std::vector<std::int32_t> pending;
  const auto reach = [&](std::int32_t expression) {
    if (!seen[static_cast<std::size_t>(expression)]) {
      seen[static_cast<std::size_t>(expression)] = true;
      pending.push_back(expression);
    }
  };
  const auto reach_rule = [&](std::int32_t number) {
    const Grammar::Rule& rule = grammar_.rules[static_cast<std::size_t>(number)];
    if (!finite[static_cast<std::size_t>(rule.body)]) {
      throw Error("grammar: " + (rule.line > 0 ? "line " + std::to_string(rule.line) + ": " : "") + "rule '" + rule.name +
                  "' never comes to an end: each of its texts needs another one inside");
    }
    reach(rule.body);
  };
  reach_rule(grammar_.root);
  while (!pending.empty()) {
    const GrammarExpression& one = grammar_.at(pending.back());
    pending.pop_back();
    if (one.kind == Kind::reference) {
      reach_rule(one.rule);
    } else if (Grammar::has_parts(one)) {
      std::ranges::for_each(grammar_.parts_of(one), reach);
    }
  }
}

}  // namespace rocmforge
