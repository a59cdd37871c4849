#pragma once

#include "server/api/json.h"

namespace rocmforge {

/// A request of OpenAI's Responses API as one of chat completions. `input` goes on from the messages `earlier`, an array;
/// `instructions`, `tools`, `tool_choice`, `text`, `reasoning` and `max_output_tokens` are put in the other's terms, all
/// other members stay as they are. Tools that are no functions are left out and become fields that nobody knows. Throws
/// ApiError(400) that names the member or item that is wrong or that asks for more than text.
/// https://platform.openai.com/docs/api-reference/responses/create
Json chat_body_of_responses(const Json& body, Json earlier);

}  // namespace rocmforge
