#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "grammar/grammar_text.h"

namespace rocmforge {

/// A regular expression as a grammar expression for the inside of a JSON string, and the number of characters of its texts.
struct PatternGrammar {
  std::string expression;
  std::uint64_t shortest = 0, longest = 0;  ///< longest: GrammarExpression::unbounded where there is no bound
  std::string character{};                  ///< set if a text is any `shortest` to `longest` of these characters, else ""
};

/// The part of ECMA-262's regular expressions that docs/grammars.md lists; without '^' or '$' any text may stand before or
/// after. Where regular expression engines differ (\w or \s beyond ASCII), only what all of them accept is written.
/// Throws Error, with the place in the pattern, for what is not supported.
PatternGrammar pattern_grammar(std::string_view pattern, GrammarText& grammar);

/// A grammar in GBNF of the texts that match the whole of `pattern`, as plain text instead of JSON; '^' and '$' change
/// nothing. Throws Error like pattern_grammar().
std::string pattern_gbnf(std::string_view pattern);

/// The same for the texts in which `pattern` finds something: without '^' or '$' any text may stand before or after.
std::string pattern_search_gbnf(std::string_view pattern);

/// The pattern of one of JSON Schema's formats for strings, or "" for a format that isn't known.
std::string format_pattern(std::string_view format);

/// Any character inside a JSON string, escaped or not.
std::string json_character(GrammarText& grammar);

/// The characters of `ranges` (normalized, not empty) as a JSON string contains them. Control characters without a short
/// escape are written only if there are no other characters.
std::string json_characters(const std::vector<CodeRange>& ranges);

}  // namespace rocmforge
