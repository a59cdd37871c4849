#pragma once

#include <memory>

#include "server/api/chat_prompt.h"
#include "server/api/chat_tools.h"

namespace rocmforge {

/// The reasoning fields of a request as variables of the template: `reasoning_effort`, and the `type` of
/// `thinking` ({"type": "enabled", "disabled" or "adaptive", "budget_tokens"}). Effort "none" and type "disabled" turn
/// reasoning off where the template has a switch. Variables in chat_template_kwargs are not replaced. Throws ApiError(400).
void read_thinking_variables(Fields& fields, Json& template_arguments);

/// Adds to `constraint` the limit of reasoning tokens that `reasoning_budget` (also `thinking_budget_tokens`,
/// `thinking_token_budget` and `thinking.budget_tokens`) sets; -1 sets none. Throws ApiError(400).
std::shared_ptr<const TokenConstraint> bound_thoughts(Fields& fields, const ToolUse& use, const ServedModel& model,
                                                      std::shared_ptr<const TokenConstraint> constraint);

}  // namespace rocmforge
