#pragma once

#include "server/api/json.h"

namespace rocmforge {

/// Converts a request of Anthropic's Messages API to one of OpenAI's chat completions: `system`, `messages` with their
/// blocks, `tools`, `tool_choice`, `thinking`, `stop_sequences`, `output_config` and `output_format` are converted, all
/// other members stay as they are. Throws ApiError(400) that names the member or block that is wrong or that asks for more
/// than text. https://docs.anthropic.com/en/api/messages
Json chat_body_of_anthropic(const Json& body);

}  // namespace rocmforge
