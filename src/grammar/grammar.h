#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/work_budget.h"

namespace rocmforge {

/// The default work for parsing and compiling one grammar: about half a second.
constexpr std::uint64_t grammar_compile_units = 50'000'000;

/// Code points first..last, both included.
struct CodeRange {
  char32_t first = 0, last = 0;
  bool operator==(const CodeRange&) const = default;
};

/// A piece of a grammar's rules. What it holds is in one of the grammar's lists, from `first` on.
struct GrammarExpression {
  enum class Kind : std::uint8_t {
    literal,     ///< bytes of UTF-8 in Grammar::text; may be empty
    characters,  ///< one character of Grammar::ranges, which are ascending, apart and without surrogates; never none
    reference,   ///< rule number `rule`
    sequence,    ///< all of Grammar::parts, one after another
    choice,      ///< one of Grammar::parts
    repeat,      ///< the one part, `minimum` to `maximum` times
    automaton,   ///< the texts along the edges of Grammar::states, from the first state to one where a text may end
  };
  static constexpr std::uint32_t unbounded = std::numeric_limits<std::uint32_t>::max();

  Kind kind = Kind::literal;
  std::uint32_t first = 0, count = 0;
  std::int32_t rule = -1;
  std::uint32_t minimum = 0, maximum = 0;

  bool operator==(const GrammarExpression&) const = default;
};

/// A context-free grammar over Unicode text. Expressions are in a flat list, so that no function needs recursion for deep
/// nesting. GrammarBuilder makes it.
struct Grammar {
  struct Rule {
    std::string name;        ///< for messages; several rules may have the same
    std::int32_t body = -1;  ///< an expression; -1 where nothing refers to the rule
    std::int32_t line = 0;   ///< of its definition in a text, from 1; 0: it was not read from a text
    bool operator==(const Rule&) const = default;
  };

  /// A state of an automaton. A text may end at some state beyond each, and no edge has an empty text.
  struct State {
    std::uint32_t first = 0, count = 0;  ///< its edges
    bool ends = false;
    bool operator==(const State&) const = default;
  };
  struct Edge {
    std::int32_t part = -1;    ///< an expression that refers to no rule
    std::uint32_t target = 0;  ///< counted from the automaton's first state
    bool operator==(const Edge&) const = default;
  };

  std::vector<GrammarExpression> expressions;  ///< each after its parts; may be a part of several others
  std::vector<std::int32_t> parts;             ///< numbers of expressions
  std::vector<CodeRange> ranges;
  std::vector<State> states;
  std::vector<Edge> edges;
  std::string text;
  std::vector<Rule> rules;
  std::int32_t root = 0;

  /// Whether an expression is made of Grammar::parts.
  [[nodiscard]] static bool has_parts(const GrammarExpression& one) {
    using Kind = GrammarExpression::Kind;
    return one.kind == Kind::sequence || one.kind == Kind::choice || one.kind == Kind::repeat;
  }
  [[nodiscard]] const GrammarExpression& at(std::int32_t expression) const {
    return expressions[static_cast<std::size_t>(expression)];
  }
  [[nodiscard]] std::span<const std::int32_t> parts_of(const GrammarExpression& one) const {
    return std::span(parts).subspan(one.first, one.count);
  }
  [[nodiscard]] std::span<const CodeRange> ranges_of(const GrammarExpression& one) const {
    return std::span(ranges).subspan(one.first, one.count);
  }
  [[nodiscard]] std::span<const State> states_of(const GrammarExpression& one) const {
    return std::span(states).subspan(one.first, one.count);
  }
  [[nodiscard]] std::span<const Edge> edges_of(const State& one) const {
    return std::span(edges).subspan(one.first, one.count);
  }
  [[nodiscard]] std::string_view text_of(const GrammarExpression& one) const {
    return std::string_view(text).substr(one.first, one.count);
  }

  /// Its size, without the rules' names.
  [[nodiscard]] std::size_t memory_bytes() const {
    return expressions.capacity() * sizeof(GrammarExpression) + parts.capacity() * sizeof(std::int32_t) +
           ranges.capacity() * sizeof(CodeRange) + states.capacity() * sizeof(State) + edges.capacity() * sizeof(Edge) +
           text.capacity() + rules.capacity() * sizeof(Rule);
  }
  bool operator==(const Grammar&) const = default;
};

/// Sorts and joins ranges; removes surrogates and code points beyond Unicode.
std::vector<CodeRange> normalize(std::vector<CodeRange> ranges);

/// All characters outside `ranges` (normalized).
std::vector<CodeRange> complement(const std::vector<CodeRange>& ranges);

/// The characters in both (normalized).
std::vector<CodeRange> intersection(const std::vector<CodeRange>& a, const std::vector<CodeRange>& b);

enum class Derivation : std::uint8_t {
  empty,   ///< the empty text can be derived
  finite,  ///< some text can be derived; without it, a derivation never ends
};

/// For each expression, whether it can derive such a text. A reference can if the body of its rule can.
std::vector<bool> expressions_that_derive(const Grammar& grammar, Derivation derivation, WorkBudget& budget);

}  // namespace rocmforge
