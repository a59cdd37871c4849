#pragma once

#include <string>

#include "base/json.h"
#include "base/work_budget.h"

namespace rocmforge {

/// A grammar in GBNF whose every text is JSON that is valid by `schema`. docs/grammars.md says which parts of JSON Schema
/// are supported, and which valid answers are left out. Throws Error with the place in the schema and the keyword that is
/// wrong, not supported, or can't be satisfied, and the exceptions of WorkBudget. Rules are named `root` and `ws`, or begin
/// with `value`, `any`, `key`, `string`, `digits` or `escape`, so that a larger grammar can use them beside its own.
std::string json_schema_to_gbnf(const nlohmann::ordered_json& schema, WorkBudget& budget);
/// With a budget of grammar_compile_units.
std::string json_schema_to_gbnf(const nlohmann::ordered_json& schema);

/// A grammar for any JSON object, of values nested at most 16 deep.
std::string json_object_gbnf();

}  // namespace rocmforge
