#pragma once

#include "server/api/json.h"

namespace rocmforge {

/// A request of Anthropic's Messages API as one of OpenAI's chat completions: `system`, `messages` with their blocks,
/// `tools`, `tool_choice`, `thinking`, `stop_sequences`, `output_config` and `output_format` are put in the other's terms,
/// all other members stay as they are. Throws ApiError(400) that names the member or block that is wrong or that asks for
/// more than text. https://docs.anthropic.com/en/api/messages
Json chat_body_of_anthropic(const Json& body);

}  // namespace rocmforge
