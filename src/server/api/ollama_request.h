#pragma once

#include "server/api/fields.h"

namespace rocmforge {

/// Converts a request of Ollama's /api/chat to one of OpenAI's chat completions: `messages`, `options`, `format` and `think`
/// are converted, all other members stay as they are. Throws ApiError(400) that names the member that is wrong.
/// https://github.com/ollama/ollama/blob/main/docs/api.md
Json chat_body_of_ollama(Fields& fields);

/// The same for /api/generate: `prompt` becomes a user's message after `system`, or, when `raw`, stays a prompt.
Json generate_body_of_ollama(Fields& fields);

}  // namespace rocmforge
