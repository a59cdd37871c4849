#pragma once

#include "base/json.h"
#include "base/work_budget.h"
#include "grammar/json_grammar.h"

namespace rocmforge {

/// The JSON texts that are valid by `schema`, without a blank in front. docs/grammars.md says which parts of JSON Schema are
/// supported, and which valid answers are left out. Throws Error with the place in the schema and the keyword that is wrong,
/// not supported, or can't be satisfied, and the exceptions of WorkBudget. `budget` is spent for the schema, the builder's
/// own for the grammar.
GrammarNode json_schema_value(const nlohmann::ordered_json& schema, JsonGrammar& json, WorkBudget& budget);

/// The same as a grammar; a blank may come first. Whether it is too large for an automaton is seen only when that is made
/// (ByteAutomaton).
Grammar json_schema_grammar(const nlohmann::ordered_json& schema, WorkBudget& budget);
/// With a budget of grammar_compile_units.
Grammar json_schema_grammar(const nlohmann::ordered_json& schema);

/// Any JSON object, of values nested at most 16 deep.
Grammar json_object_grammar();

}  // namespace rocmforge
