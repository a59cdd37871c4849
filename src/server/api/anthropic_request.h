#pragma once

#include "server/api/fields.h"

namespace rocmforge {

/// Converts a request of Anthropic's Messages API to one of OpenAI's chat completions: `system`, `messages` with their
/// blocks, `tools`, `tool_choice`, `thinking`, `stop_sequences`, `output_config` and `output_format` are converted, all
/// other members stay as they are. Blocks that are no text become one (content_parts.h), tools that the client runs become
/// functions, and tools that run on the vendor's server are left out; each counts as an unknown field of `fields`. Throws
/// ApiError(400) that names the member or block that is wrong. https://docs.anthropic.com/en/api/messages
Json chat_body_of_anthropic(Fields& fields);

}  // namespace rocmforge
