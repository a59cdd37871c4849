#pragma once

#include "server/api/json.h"

namespace rocmforge {

/// Converts a request of OpenAI's Responses API to one of chat completions. `input` continues the messages `earlier`, an
/// array; `instructions`, `tools`, `tool_choice`, `text`, `reasoning` and `max_output_tokens` are converted, all other
/// members stay as they are. Tools that are not functions are left out and count as unknown fields. Throws ApiError(400)
/// that names the member or item that is wrong or that asks for more than text.
/// https://platform.openai.com/docs/api-reference/responses/create
Json chat_body_of_responses(const Json& body, Json earlier);

}  // namespace rocmforge
