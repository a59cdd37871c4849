#pragma once

#include <string_view>

#include "chat/conversation.h"
#include "server/api/fields.h"

namespace rocmforge {

/// Reads `reasoning_effort`, and the `type` of `thinking` ({"type": "enabled", "disabled" or "adaptive",
/// "budget_tokens"}). Throws ApiError(400).
void read_thinking(Fields& fields, Reasoning& reasoning);

/// Reads the limit of reasoning tokens: `reasoning_budget`, also `thinking_budget_tokens`, `thinking_token_budget` and
/// `thinking.budget_tokens`; -1 sets none. Throws ApiError(400), also for two limits that differ.
void read_reasoning_limits(Fields& fields, Reasoning& reasoning);
/// The same for the one field `name`.
void read_reasoning_limit(Fields& fields, std::string_view name, Reasoning& reasoning);

}  // namespace rocmforge
