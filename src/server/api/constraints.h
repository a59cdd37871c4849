#pragma once

#include <memory>
#include <optional>

#include "chat/conversation.h"
#include "grammar/cache.h"
#include "grammar/token_constraint.h"
#include "server/api/fields.h"

namespace rocmforge {

class Reading;
struct GrammarTrigger;

/// The grammar from the cache; its memory is counted for the request until its end. Throws ApiError(503) without memory, and
/// what GrammarCache::get throws.
std::shared_ptr<GrammarMatcher> held_grammar(Grammar grammar, GrammarCache& grammars, Reading& reading);

/// Reads the constraint of the answer (read_asked_grammar). Null without one. Throws ApiError(400) with the reason for a
/// grammar or schema that is not supported. With `trigger` the constraint begins after that text. `own`: what the API's own
/// field asks for.
std::shared_ptr<const TokenConstraint> read_constraint(Fields& fields, GrammarCache& grammars, Reading& reading,
                                                       const GrammarTrigger* trigger = nullptr,
                                                       const std::optional<AskedFormat>& own = {});

}  // namespace rocmforge
