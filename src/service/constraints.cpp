#include "service/constraints.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "base/error.h"
#include "grammar/grammar_constraint.h"
#include "service/reading.h"
#include "service/service_error.h"

namespace rocmforge {

namespace {

std::shared_ptr<GrammarMatcher> held(std::shared_ptr<GrammarMatcher> matcher, Reading& reading) {
  reading.hold_to_end(static_cast<std::int64_t>(matcher->memory_bytes()));
  return matcher;
}

std::shared_ptr<GrammarMatcher> grammar_of(AnswerGrammar& asked, GrammarCache& grammars, Reading& reading) {
  return asked.gbnf.empty() ? held_grammar(std::move(asked.grammar), grammars, reading)
                            : held(grammars.get(asked.gbnf, reading.budget), reading);
}

}  // namespace

std::string in_field(const std::string& field, std::string_view problem) {
  return problem.starts_with(field + ": ") ? std::string(problem) : fmt::format("{}: {}", field, problem);
}

std::shared_ptr<GrammarMatcher> held_grammar(Grammar grammar, GrammarCache& grammars, Reading& reading) {
  return held(grammars.get(std::move(grammar), reading.budget), reading);
}

std::shared_ptr<const TokenConstraint> constrain(std::optional<AnswerGrammar> asked, GrammarCache& grammars,
                                                 Reading& reading, const GrammarTrigger* trigger) {
  if (!asked) {
    return nullptr;
  }
  try {
    auto matcher = grammar_of(*asked, grammars, reading);
    return trigger != nullptr ? make_lazy_grammar_constraint(std::move(matcher), *trigger)
                              : make_grammar_constraint(std::move(matcher));
  } catch (const Error& error) {
    throw ServiceError(ServiceError::Kind::invalid, in_field(asked->field, error.what()), asked->field);
  }
}

}  // namespace rocmforge
