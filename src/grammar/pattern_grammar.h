#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/json_grammar.h"

namespace rocmforge {

/// A regular expression as a part of a grammar, and the number of characters of its texts.
struct PatternGrammar {
  GrammarNode node{};
  std::uint64_t shortest = 0, longest = 0;  ///< longest: GrammarBuilder::unbounded where there is no bound
  std::optional<GrammarNode> character{};   ///< set if a text is any `shortest` to `longest` of these characters
};

/// The part of ECMA-262's regular expressions that docs/grammars.md lists, for the inside of a JSON string; without '^' or
/// '$' any text may stand before or after. Where regular expression engines differ (\w or \s beyond ASCII), only what all of
/// them accept is written. Throws Error, with the place in the pattern, for what is not supported.
PatternGrammar json_pattern(std::string_view pattern, JsonGrammar& json);

/// The texts that match the whole of `pattern`, as plain text; '^' and '$' change nothing. Throws Error like json_pattern().
GrammarNode pattern_node(std::string_view pattern, GrammarBuilder& grammar);
/// The same as a grammar.
Grammar pattern_grammar(std::string_view pattern, WorkBudget& budget);

/// The texts in which `pattern` finds something: without '^' or '$' any text may stand before or after.
GrammarNode pattern_search_node(std::string_view pattern, GrammarBuilder& grammar);

/// The pattern of one of JSON Schema's formats for strings, or "" for a format that isn't known.
std::string format_pattern(std::string_view format);

}  // namespace rocmforge
