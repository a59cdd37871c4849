#pragma once

#include <memory>

#include "server/api/chat_prompt.h"
#include "server/api/chat_tools.h"

namespace rocmforge {

/// What a request says of the answer's reasoning, as variables of the template: `reasoning_effort`, and the `type` of
/// `thinking` ({"type": "enabled", "disabled" or "adaptive", "budget_tokens"}). Effort "none" and type "disabled" turn the
/// reasoning off where the template has a switch. What chat_template_kwargs hold stands. Throws ApiError(400).
void read_thinking_variables(Fields& fields, Json& template_arguments);

/// `constraint` and beside it the bound that `reasoning_budget` (also `thinking_budget_tokens`, `thinking_token_budget` and
/// `thinking.budget_tokens`) sets to the tokens of reasoning; -1 sets none. Throws ApiError(400).
std::shared_ptr<const TokenConstraint> bound_thoughts(Fields& fields, const ToolUse& use, const ServedModel& model,
                                                      std::shared_ptr<const TokenConstraint> constraint);

}  // namespace rocmforge
