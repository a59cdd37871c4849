#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

/// Code points first..last, both included.
struct CodeRange {
  char32_t first = 0, last = 0;
  bool operator==(const CodeRange&) const = default;
};

/// A piece of a grammar's rule.
struct GrammarExpression {
  enum class Kind : std::uint8_t {
    literal,     ///< `text`, bytes of UTF-8; may be empty
    characters,  ///< one character of `ranges`, which are ascending, apart and without surrogates; never none
    reference,   ///< rule number `rule`
    sequence,    ///< `parts` one after another
    choice,      ///< one of `parts`
    repeat,      ///< parts[0], `minimum` to `maximum` times
  };
  static constexpr std::uint32_t unbounded = std::numeric_limits<std::uint32_t>::max();

  Kind kind = Kind::literal;
  std::string text{};
  std::vector<CodeRange> ranges{};
  std::vector<GrammarExpression> parts{};
  std::int32_t rule = -1;
  std::uint32_t minimum = 0, maximum = 0;
};

/// A context-free grammar over Unicode text.
struct Grammar {
  struct Rule {
    std::string name;
    GrammarExpression body;
    std::int32_t line = 0;  ///< of its definition, from 1
  };
  std::vector<Rule> rules;
  std::int32_t root = 0;
};

/// Reads a grammar in GBNF as docs/grammars.md describes it; the rule `root` is where a text begins. Every rule that is
/// named is defined, and every rule that `root` needs can derive a text of finite length. Throws Error with line and column.
Grammar parse_gbnf(std::string_view text);

/// Sorts and joins ranges and leaves out surrogates and what lies beyond Unicode.
std::vector<CodeRange> normalize(std::vector<CodeRange> ranges);

/// Every character that `ranges` (normalized) lacks.
std::vector<CodeRange> complement(const std::vector<CodeRange>& ranges);

/// The rules that `expression` names, as often as it does.
void add_references(const GrammarExpression& expression, std::vector<std::int32_t>& rules);

enum class Derivation : std::uint8_t {
  empty,   ///< the empty text can be derived
  finite,  ///< some text can be derived; without it, a derivation never ends
};

/// For each rule, whether it can derive such a text.
std::vector<bool> rules_that_derive(const Grammar& grammar, Derivation derivation);
bool derives(const GrammarExpression& expression, Derivation derivation, const std::vector<bool>& rules);

}  // namespace rocmforge
