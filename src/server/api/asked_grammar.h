#pragma once

#include <optional>
#include <string>

#include "server/api/fields.h"

namespace rocmforge {

class Exchange;

/// What an answer is asked to keep to.
struct AskedGrammar {
  std::string gbnf;
  std::string field;  ///< that asks for it
};

/// Reads `grammar` (GBNF), `json_schema`, `response_format`, and vLLM's `structured_outputs`, `guided_json`, `guided_regex`,
/// `guided_choice` and `guided_grammar`, of which one may be given. Empty when the answer is free. Throws ApiError(400) with
/// the reason for a schema or pattern that can't be kept to, and for two that ask for something, with the names of both.
std::optional<AskedGrammar> read_asked_grammar(Fields& fields, Exchange& exchange);

}  // namespace rocmforge
