#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/work_budget.h"
#include "grammar/grammar.h"

namespace rocmforge {

/// A piece of a grammar that is being built. It may become a part of any number of others.
enum class GrammarNode : std::int32_t {};
/// A rule of a grammar that is being built.
enum class GrammarRule : std::int32_t {};

/// A state of an automaton that is being built: Grammar::State.
struct AutomatonState {
  std::vector<std::pair<GrammarNode, std::size_t>> edges{};  ///< the texts of an edge, and the state that it leads to
  bool ends = false;                                         ///< a text may end here
};

/// Builds a grammar from pieces. Every function spends a few units for each node and part, and throws Error where the
/// grammar exceeds most_rules, most_repetitions or largest_size.
class GrammarBuilder {
 public:
  static constexpr std::size_t most_rules = 20'000;
  static constexpr std::uint64_t most_repetitions = 100'000;
  /// Of nodes, their parts, ranges of characters, and bytes of literals together.
  static constexpr std::size_t largest_size = std::size_t{4} << 20;
  static constexpr std::uint64_t unbounded = GrammarExpression::unbounded;

  /// `budget` must outlive the builder.
  explicit GrammarBuilder(WorkBudget& budget) : budget_(budget) {}

  /// `text`: UTF-8. "" is the empty text.
  GrammarNode literal(std::string_view text);
  /// One character of `ranges`, which are normalized and not empty.
  GrammarNode characters(std::span<const CodeRange> ranges);
  /// All parts, one after another; the empty text for none.
  GrammarNode sequence(std::span<const GrammarNode> parts);
  GrammarNode sequence(std::initializer_list<GrammarNode> parts) { return sequence(std::span(parts.begin(), parts.size())); }
  /// One of the parts, of which there is at least one.
  GrammarNode choice(std::span<const GrammarNode> parts);
  GrammarNode choice(std::initializer_list<GrammarNode> parts) { return choice(std::span(parts.begin(), parts.size())); }
  /// `minimum` to `maximum` times `part`. `maximum` from `unbounded` on: without a bound. Throws Error for bounds in the
  /// wrong order.
  GrammarNode repeat(GrammarNode part, std::uint64_t minimum, std::uint64_t maximum);
  GrammarNode optional(GrammarNode part) { return repeat(part, 0, 1); }
  GrammarNode any_number(GrammarNode part) { return repeat(part, 0, unbounded); }
  /// The texts from the first state to one where a text may end. Some end can be reached from each state, and edges hold
  /// characters, literals that are not empty, and choices of them.
  GrammarNode automaton(std::span<const AutomatonState> states);

  /// A rule that is defined later, or never if nothing refers to it. Messages show the first 60 bytes of `name`.
  GrammarRule declare(std::string_view name);
  /// `line`: Grammar::Rule::line.
  void define(GrammarRule rule, GrammarNode body, std::int32_t line = 0);
  GrammarNode reference(GrammarRule rule);
  /// Refers to a new rule. A rule is compiled once, other pieces as often as they are used.
  GrammarNode add_rule(std::string_view name, GrammarNode body);

  [[nodiscard]] std::size_t num_rules() const { return grammar_.rules.size(); }
  [[nodiscard]] WorkBudget& budget() const { return budget_; }

  /// The grammar of the texts of `root`. Throws Error if a rule that it needs has no text of finite length.
  Grammar finish(GrammarRule root);
  Grammar finish(GrammarNode root);

 private:
  GrammarNode add(const GrammarExpression& expression, std::size_t size);
  GrammarNode add_parts(GrammarExpression::Kind kind, std::span<const GrammarNode> parts);
  void check_finite() const;

  WorkBudget& budget_;
  Grammar grammar_;
  std::size_t size_ = 0;
};

}  // namespace rocmforge
