#pragma once

#include "server/api/responses_tools.h"

namespace rocmforge {

/// Converts a request of OpenAI's Responses API to one of chat completions. `input` continues the messages `earlier`, an
/// array; `instructions`, `tools`, `tool_choice`, `text`, `reasoning` and `max_output_tokens` are converted, all other
/// members stay as they are. `tools` gets the request's tools. Tools that run on the vendor's server, and items and parts
/// that are no text, count as unknown fields of `fields`. Throws ApiError(400) that names the member or item that is wrong.
/// https://platform.openai.com/docs/api-reference/responses/create
Json chat_body_of_responses(Fields& fields, Json earlier, OfferedTools& tools);

}  // namespace rocmforge
