#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/cache.h"
#include "grammar/token_constraint.h"

namespace rocmforge {

class Reading;
struct GrammarTrigger;

/// The grammar that a request holds its answer to.
struct AnswerGrammar {
  Grammar grammar{};
  std::string field{};  ///< that asks for it, for messages
  std::string gbnf{};   ///< if it is not empty, the grammar as a text that was not read yet
};

/// `problem`, which names the field.
std::string in_field(const std::string& field, std::string_view problem);

/// The grammar from the cache; its memory is counted for the request until its end. Throws ServiceError without memory, and
/// what GrammarCache::get throws.
std::shared_ptr<GrammarMatcher> held_grammar(Grammar grammar, GrammarCache& grammars, Reading& reading);

/// The constraint of an answer; null without a grammar. With `trigger` it begins after that text. Throws ServiceError, with
/// the grammar's field for one that is not supported.
std::shared_ptr<const TokenConstraint> constrain(std::optional<AnswerGrammar> asked, GrammarCache& grammars,
                                                 Reading& reading, const GrammarTrigger* trigger = nullptr);

}  // namespace rocmforge
