#pragma once

#include <optional>
#include <string>

#include "chat/conversation.h"
#include "server/api/fields.h"
#include "service/constraints.h"

namespace rocmforge {

class Reading;

/// A schema's name: 1 to 64 letters, digits, '_' and '-'. Throws ApiError(400) naming the field `name`.
void check_schema_name(const Fields& fields, const std::string& name);

/// Reads `grammar` (GBNF), `json_schema`, `response_format`, and vLLM's `structured_outputs`, `guided_json`, `guided_regex`,
/// `guided_choice` and `guided_grammar`, of which one may be given; `own` is what the API's own field asks for. Empty
/// without a constraint. Throws ApiError(400) with the reason for a schema or pattern that is not supported, and with both
/// names when two fields ask for a constraint.
std::optional<AnswerGrammar> read_answer_grammar(Fields& fields, Reading& reading,
                                                 const std::optional<AskedFormat>& own = {});

}  // namespace rocmforge
