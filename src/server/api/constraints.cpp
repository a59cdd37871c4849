#include "server/api/constraints.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "grammar/grammar_constraint.h"
#include "server/api/api_error.h"
#include "server/api/asked_grammar.h"
#include "service/reading.h"

namespace rocmforge {

namespace {

std::shared_ptr<GrammarMatcher> held(std::shared_ptr<GrammarMatcher> matcher, Reading& reading) {
  reading.hold_to_end(static_cast<std::int64_t>(matcher->memory_bytes()));
  return matcher;
}

std::shared_ptr<GrammarMatcher> grammar_of(AskedGrammar asked, GrammarCache& grammars, Reading& reading) {
  return asked.gbnf.empty() ? held_grammar(std::move(asked.grammar), grammars, reading)
                            : held(grammars.get(asked.gbnf, reading.budget), reading);
}

}  // namespace

std::shared_ptr<GrammarMatcher> held_grammar(Grammar grammar, GrammarCache& grammars, Reading& reading) {
  return held(grammars.get(std::move(grammar), reading.budget), reading);
}

std::shared_ptr<const TokenConstraint> read_constraint(Fields& fields, GrammarCache& grammars, Reading& reading,
                                                       const GrammarTrigger* trigger,
                                                       const std::optional<AskedFormat>& own) {
  std::optional<AskedGrammar> asked = read_asked_grammar(fields, reading, own);
  if (!asked) {
    return nullptr;
  }
  try {
    auto matcher = grammar_of(*asked, grammars, reading);
    return trigger != nullptr ? make_lazy_grammar_constraint(std::move(matcher), *trigger)
                              : make_grammar_constraint(std::move(matcher));
  } catch (const Error& error) {
    throw ApiError(400, in_field(asked->field, error.what()), asked->field);
  }
}

}  // namespace rocmforge
